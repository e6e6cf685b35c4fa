#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/io/file_dtype.hpp"

namespace millrace::runtime {

/// A tensor as stored in a file: row-major, little-endian.
struct FileTensor {
  std::string name;
  FileDType dtype = FileDType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes from the start of the data, which starts at SafetensorsHeader::data_offset
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return end - begin; }
  [[nodiscard]] std::uint64_t elements() const noexcept;
};

/// The size of a tensor in a file. Error(internal) if it is not a whole number of bytes or overflows.
[[nodiscard]] std::uint64_t bytes_of(const std::string& name, FileDType dtype, const std::vector<std::int64_t>& shape);
/// Formats a shape: "[128, 64]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

using Metadata = std::map<std::string, std::string>;

/// Everything that a file says before its data.
struct SafetensorsHeader {
  std::vector<FileTensor> tensors;  // sorted by begin, then name
  Metadata metadata;
  std::uint64_t data_offset = 0;  // bytes from the start of the file
};

/// Limits of the reader.
inline constexpr std::uint64_t max_safetensors_header_bytes = 100'000'000;
inline constexpr std::size_t max_safetensors_tensors = 1'000'000;

/// Parses the JSON of a file of `file_bytes` bytes and checks everything: UTF-8, depth, duplicate names however they are escaped,
/// plain integers, overflow, known types, and that the tensors cover the data without gap or overlap. Memory: O(header). The
/// first violation is an Error(code) with `path`, the tensor and the byte.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t file_bytes, ExitCode code,
                                                         const std::string& path);

/// Lays out tensors (largest alignment first, then by name, as the reference writer does) and writes the header's bytes,
/// including the length field, padded with spaces to 8 bytes. Equal input in any order gives equal bytes. begin and end of the
/// input are ignored. Error(internal) for a name that is empty, too long or a duplicate.
struct SafetensorsLayout {
  SafetensorsHeader header;
  std::string bytes;
};
[[nodiscard]] SafetensorsLayout lay_out_safetensors(std::vector<FileTensor> tensors, const Metadata& metadata);

}  // namespace millrace::runtime
