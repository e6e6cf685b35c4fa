#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace millrace::runtime {

/// A file of training data. `name` is its path below the folder it was found in (or its file name where it was listed itself), so
/// that moving the data does not change what the data is.
struct DataFile {
  std::filesystem::path path;
  std::string name;
  std::uint64_t size = 0;  // bytes

  bool operator==(const DataFile&) const = default;
};

/// The regular files of `sources` (files, and folders with all that is below them) in byte order of their paths. Files from folders are
/// kept if they end with one of `suffixes` (all if there are none). Symbolic links to files are followed, to folders not, so that no
/// cycle is walked.
/// Errors: Error(data) for a path that does not exist or cannot be read, no file found, a file listed twice.
[[nodiscard]] std::vector<DataFile> list_data_files(std::span<const std::string> sources, std::span<const std::string> suffixes = {});

/// Files for training and files kept for evaluation.
struct SplitFiles {
  std::vector<DataFile> train;
  std::vector<DataFile> held_out;
};

/// Every n-th file (the n-th, the 2n-th, …) is held out; n = 0 holds out none.
[[nodiscard]] SplitFiles split_held_out(std::vector<DataFile> files, std::int64_t every);

/// Names the data without reading it: the hash of names and sizes in their order. A file whose bytes changed but not their number is not
/// noticed.
[[nodiscard]] std::string data_fingerprint(std::span<const DataFile> files);

}  // namespace millrace::runtime
