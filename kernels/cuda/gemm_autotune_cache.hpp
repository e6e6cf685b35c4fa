#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace millrace::kernels::cuda {

/// Caches the fastest algorithm of each product in a text file, so that the next run and all other ranks use the same one: the
/// bits of a product depend on its algorithm. A line consists of a key, a value and a checksum, separated by tabs; of two lines
/// with one key the first counts, and damaged lines are skipped. Keys and values are opaque here; neither contains a tab or a
/// newline.
class GemmAutotuneCache {
 public:
  /// Reads the file, or creates it. Throws Error(storage), which names the path, if that fails.
  explicit GemmAutotuneCache(std::string path);

  /// The value in the file when it was last read.
  [[nodiscard]] std::optional<std::string> find(const std::string& key) const;
  /// Adds a choice, unless another process has already done so. Returns the choice in the file. Throws Error(storage) if the file
  /// cannot be written.
  std::string keep(const std::string& key, const std::string& value);

 private:
  void read(std::string_view text);

  std::string path_;
  std::unordered_map<std::string, std::string> choices_;
};

}  // namespace millrace::kernels::cuda
