#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace millrace::kernels::cuda {

/// Which algorithm was fastest for each product, kept in a text file so that the next run, and every other rank, takes the same one: the
/// bits of a product are those of its algorithm. A line is a key, a value and a checksum with tabs between; of two lines with one key the
/// first holds, and a damaged line is passed over. Knows nothing of what keys and values mean; neither has a tab or the end of a line.
class GemmAutotuneCache {
 public:
  /// Reads the file; makes it when there is none. Throws Error(storage) naming the path when that cannot be.
  explicit GemmAutotuneCache(std::string path);

  /// What the file said when it was last read.
  [[nodiscard]] std::optional<std::string> find(const std::string& key) const;
  /// Adds a choice, unless another process was first. Returns the one that holds. Throws Error(storage) when the file cannot be written.
  std::string keep(const std::string& key, const std::string& value);

 private:
  void read(std::string_view text);

  std::string path_;
  std::unordered_map<std::string, std::string> choices_;
};

}  // namespace millrace::kernels::cuda
