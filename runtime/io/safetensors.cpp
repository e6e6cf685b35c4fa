#include "runtime/io/safetensors.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* safetensors_component = "runtime.safetensors";
constexpr std::size_t scratch_bytes = std::size_t{1} << 20;

std::string read_header_bytes(const File& file, ExitCode code) {
  const auto size = file.size();
  MILLRACE_CHECK(size >= 8, code, safetensors_component, "{}: {}, expected 8 or more: the file was cut short", file.path(),
                 byte_count(size));
  std::uint8_t field[8];
  file.read_at(0, std::as_writable_bytes(std::span(field)), code);
  std::uint64_t length = 0;
  for (int byte = 7; byte >= 0; --byte) length = length << 8 | field[byte];
  MILLRACE_CHECK(length >= 2 && length <= max_safetensors_header_bytes, code, safetensors_component, "{}: a header of {}, expected 2 to {}",
                 file.path(), byte_count(length), max_safetensors_header_bytes);
  MILLRACE_CHECK(length <= size - 8, code, safetensors_component, "{}: a header of {} in a file of {}: the file was cut short", file.path(),
                 byte_count(length), size);
  std::string bytes(8 + length, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(bytes.data(), bytes.size())), code);
  return bytes;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, ExitCode code, bool follow_links)
    : code_(code),
      file_(File::open(path, follow_links, code)),
      header_bytes_(read_header_bytes(file_, code)),
      header_(parse_safetensors_header(std::string_view(header_bytes_).substr(8), file_.size(), code, path)),
      by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(), [this](auto a, auto b) { return header_.tensors[a].name < header_.tensors[b].name; });
}

const FileTensor* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto place =
      std::lower_bound(by_name_.begin(), by_name_.end(), name, [this](auto index, auto key) { return header_.tensors[index].name < key; });
  return place != by_name_.end() && header_.tensors[*place].name == name ? &header_.tensors[*place] : nullptr;
}

const FileTensor& SafetensorsFile::at(std::string_view name) const {
  const auto* tensor = find(name);
  MILLRACE_CHECK(tensor != nullptr, code_, safetensors_component, "{}: there is no tensor '{}'", path(), name);
  return *tensor;
}

void SafetensorsFile::read_bytes(const FileTensor& tensor, std::uint64_t offset, std::span<std::byte> destination) const {
  MILLRACE_CHECK(offset <= tensor.bytes() && destination.size() <= tensor.bytes() - offset, ExitCode::internal, safetensors_component,
                 "{}: tensor '{}' has {} bytes, {} expected from {}", path(), tensor.name, tensor.bytes(), destination.size(), offset);
  try {
    file_.read_at(header_.data_offset + tensor.begin + offset, destination, code_);
  } catch (const Error& error) {
    fail(error.code(), safetensors_component, "{}: tensor '{}' at byte {}: {}", path(), tensor.name, offset,
         without_component(error.what()));
  }
}

template <class T>
void SafetensorsFile::read_converted(const FileTensor& tensor, std::uint64_t begin, std::span<T> destination) const {
  MILLRACE_CHECK(is_plain_float(tensor.dtype), code_, safetensors_component, "{}: tensor '{}' is {}, expected F32, BF16, F16 or F64",
                 path(), tensor.name, to_string(tensor.dtype));
  const std::size_t width = bits_of(tensor.dtype) / 8;
  if (tensor.dtype == file_dtype(std::is_same_v<T, float> ? kernels::DType::f32 : kernels::DType::bf16))
    return read_bytes(tensor, begin * width, std::as_writable_bytes(destination));
  std::vector<std::byte> scratch(std::min<std::uint64_t>(scratch_bytes, tensor.bytes()));
  for (std::size_t first = 0; first < destination.size(); first += scratch_bytes / width) {
    const auto part = destination.subspan(first, std::min(scratch_bytes / width, destination.size() - first));
    const auto stored = std::span(scratch).first(part.size() * width);
    read_bytes(tensor, (begin + first) * width, stored);
    convert(tensor.dtype, stored, part);
  }
}

template <class T>
void SafetensorsFile::read_whole(std::string_view name, std::span<T> destination) const {
  const auto& tensor = at(name);
  MILLRACE_CHECK(tensor.elements() == destination.size(), code_, safetensors_component, "{}: tensor '{}' has {} elements {}, expected {}",
                 path(), name, tensor.elements(), shape_text(tensor.shape), destination.size());
  read_converted(tensor, 0, destination);
}

void SafetensorsFile::read(std::string_view name, std::span<float> destination) const { read_whole(name, destination); }
void SafetensorsFile::read(std::string_view name, std::span<kernels::BFloat16> destination) const { read_whole(name, destination); }

void SafetensorsFile::read_part(std::string_view name, std::uint64_t first, std::span<float> destination) const {
  const auto& tensor = at(name);
  MILLRACE_CHECK(first <= tensor.elements() && destination.size() <= tensor.elements() - first, code_, safetensors_component,
                 "{}: tensor '{}' has {} elements {}, expected {} from {} on", path(), name, tensor.elements(), shape_text(tensor.shape),
                 destination.size(), first);
  read_converted(tensor, first, destination);
}

SafetensorsLayout write_safetensors_to(File& file, std::vector<FileTensor> tensors, const Metadata& metadata,
                                       const TensorProducer& producer) {
  auto layout = lay_out_safetensors(std::move(tensors), metadata);
  file.write(layout.bytes);
  for (const auto& tensor : layout.header.tensors) {
    std::uint64_t written = 0;
    producer(tensor, [&](std::span<const std::byte> bytes) {
      written += bytes.size();
      MILLRACE_CHECK(written <= tensor.bytes(), ExitCode::internal, safetensors_component, "{}: tensor '{}' gave more than its {} bytes",
                     file.path(), tensor.name, tensor.bytes());
      file.write(bytes);
    });
    MILLRACE_CHECK(written == tensor.bytes(), ExitCode::internal, safetensors_component, "{}: tensor '{}' gave {} bytes, expected {}",
                   file.path(), tensor.name, written, tensor.bytes());
  }
  return layout;
}

void write_safetensors(const std::string& path, std::vector<FileTensor> tensors, const Metadata& metadata, const TensorProducer& producer) {
  const auto temporary = path + ".tmp";
  try {
    {
      auto file = File::create(temporary);
      write_safetensors_to(file, std::move(tensors), metadata, producer);
      file.sync();
    }
    rename_path(temporary, path);
  } catch (const Error&) {
    try {
      remove_file(temporary);
    } catch (const Error&) {  // the first error is the one to report
    }
    throw;
  }
  sync_directory(parent_path(path));
}

void write_safetensors(const std::string& path, std::span<const TensorToWrite> tensors, const Metadata& metadata) {
  write_safetensors(path, describe(tensors), metadata, producer_of(tensors));
}

std::vector<FileTensor> describe(std::span<const TensorToWrite> tensors) {
  std::vector<FileTensor> described;
  described.reserve(tensors.size());
  for (const auto& tensor : tensors) described.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  return described;
}

TensorProducer producer_of(std::span<const TensorToWrite> tensors) {
  auto bytes = std::make_shared<std::map<std::string, std::span<const std::byte>, std::less<>>>();
  for (const auto& tensor : tensors) bytes->emplace(tensor.name, tensor.bytes);
  return [bytes](const FileTensor& tensor, const ByteSink& sink) { sink(bytes->at(tensor.name)); };
}

}  // namespace millrace::runtime
