#include "kernels/cuda/gemm_autotune_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/base/check.hpp"

namespace millrace::kernels::cuda {
namespace {

constexpr const char* component = "kernels.product_choices";

/// FNV-1a of a line without its checksum.
std::string checksum(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

/// The file, open and locked against all other processes that use it.
class LockedFile {
 public:
  explicit LockedFile(const std::string& path)
      : path_(path), descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {  // NOLINT: open is variadic
    if (descriptor_ < 0) give_up("opened");
    while (flock(descriptor_, LOCK_EX) != 0)
      if (errno != EINTR) {
        const int error = errno;
        close(descriptor_);
        errno = error;
        give_up("locked");
      }
  }
  ~LockedFile() { close(descriptor_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  [[nodiscard]] std::string text() const {
    std::string all;
    std::array<char, 1 << 14> part;
    for (;;) {
      const ssize_t count = pread(descriptor_, part.data(), part.size(), static_cast<off_t>(all.size()));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) give_up("read");
      if (count == 0) return all;
      all.append(part.data(), static_cast<std::size_t>(count));
    }
  }
  /// In one write, so that a crash leaves at worst one damaged line.
  void append(std::string_view text) const {
    ssize_t count = 0;
    do count = write(descriptor_, text.data(), text.size());
    while (count < 0 && errno == EINTR);
    if (count >= 0 && static_cast<std::size_t>(count) != text.size()) errno = ENOSPC;
    if (count < 0 || static_cast<std::size_t>(count) != text.size()) give_up("written");
  }

 private:
  [[noreturn]] void give_up(const char* what) const {
    fail(ExitCode::storage, component, "{} cannot be {}: {}", path_, what, std::strerror(errno));
  }

  const std::string& path_;
  int descriptor_;
};

}  // namespace

GemmAutotuneCache::GemmAutotuneCache(std::string path) : path_(std::move(path)) { read(LockedFile(path_).text()); }

std::optional<std::string> GemmAutotuneCache::find(const std::string& key) const {
  const auto found = choices_.find(key);
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

std::string GemmAutotuneCache::keep(const std::string& key, const std::string& value) {
  const LockedFile file(path_);
  const std::string before = file.text();
  read(before);
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  const std::string line = fmt::format("{}\t{}", key, value);
  // A line that a crash cut off must not merge with this one.
  const char* const separate = before.empty() || before.back() == '\n' ? "" : "\n";
  file.append(fmt::format("{}{}\t{}\n", separate, line, checksum(line)));
  return choices_.emplace(key, value).first->second;
}

void GemmAutotuneCache::read(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    const std::size_t first = line.find('\t'), last = line.rfind('\t');
    if (last == first || line.substr(last + 1) != checksum(line.substr(0, last))) continue;
    choices_.emplace(line.substr(0, first), line.substr(first + 1, last - first - 1));
  }
}

}  // namespace millrace::kernels::cuda
