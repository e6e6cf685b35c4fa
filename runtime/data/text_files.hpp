#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// A file of training data. `name` is its path relative to the folder that was listed (or its file name if the file itself was
/// listed), so that moving the data does not change its identity.
struct DataFile {
  std::filesystem::path path;
  std::string name;
  std::uint64_t size = 0;  // bytes

  bool operator==(const DataFile&) const = default;
};

/// Lists the regular files of `sources` (files, and folders recursively) in byte order of their paths. Files from folders are
/// kept if they end with one of `suffixes` (all files if `suffixes` is empty). Symbolic links to files are followed, links to
/// folders are not, which rules out cycles. Errors: Error(data) for a path that does not exist or cannot be read, for an empty
/// result, and for a file that is listed twice; they name `key`, whose value the sources are, if it is given.
[[nodiscard]] std::vector<DataFile> list_data_files(std::span<const std::string> sources, std::span<const std::string> suffixes = {},
                                                    std::string_view key = {});

/// Whether bytes that should be 16-bit tokens without a header are text: UTF-8 without control characters at the beginning of the file, and
/// enough of it, or an odd number of bytes, which no tokens have.
[[nodiscard]] bool reads_as_text(std::span<const std::byte> bytes);

/// Where a file lies, however its path was written. Two links to one file lie at two places. Errors: Error(data).
[[nodiscard]] std::filesystem::path place_of(const std::filesystem::path& file);

/// The files for training and the files held out for evaluation.
struct SplitFiles {
  std::vector<DataFile> train;
  std::vector<DataFile> held_out;
};

/// Every n-th file (the n-th, the 2n-th, …) is held out; n = 0 holds out none.
[[nodiscard]] SplitFiles split_held_out(std::vector<DataFile> files, std::int64_t every);

/// A hash over the files' names and sizes in order, computed without reading the files. It does not notice a file whose bytes
/// change while its size stays the same.
[[nodiscard]] std::string data_fingerprint(std::span<const DataFile> files);

}  // namespace millrace::runtime
