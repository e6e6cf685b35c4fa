#include "runtime/io/file_system.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/base/count.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* file_system_component = "runtime.file_system";
// Large enough for full bandwidth, small enough that a fault can be injected inside a tensor.
constexpr std::size_t max_call_bytes = std::size_t{4} << 20;

[[noreturn]] void fail_with(ExitCode code, std::string_view operation, std::string_view path, int error) {
  fail(code, file_system_component, "{} {}: {}", operation, path, std::strerror(error));
}

/// Asks the hook and injects every fault except those of write, which leave half of the bytes behind; returns the faults that it
/// did not inject.
FileFault ask(FileOperation operation, std::string_view path, std::string_view words, std::uint64_t bytes = 0,
              std::string_view target = {}) {
  const auto fault = detail::ask_file_hook(operation, path, bytes, target);
  switch (fault) {
    case FileFault::io_error:
      fail_with(ExitCode::storage, words, path, EIO);
    case FileFault::no_space:
      fail_with(ExitCode::storage, words, path, ENOSPC);
    case FileFault::kill:
      _exit(killed_status);
    default:
      return fault;
  }
}

/// Writes some of the bytes, at the file position or at an offset, and returns how many. If the system takes none and reports no
/// error, a loop would never end, so that is an error too.
std::size_t write_some(int descriptor, std::span<const std::byte> bytes, std::optional<std::uint64_t> offset, bool refused,
                       const std::string& path) {
  const std::size_t count = refused ? 0 : bytes.size();
  while (true) {
    const auto written =
        offset ? ::pwrite(descriptor, bytes.data(), count, static_cast<off_t>(*offset)) : ::write(descriptor, bytes.data(), count);
    if (written > 0) return static_cast<std::size_t>(written);
    MILLRACE_CHECK(written < 0, ExitCode::storage, file_system_component,
                   "writing {}: the system accepted none of {} bytes and reported no error", path, bytes.size());
    if (errno != EINTR) fail_with(ExitCode::storage, "writing", path, errno);
  }
}

/// Whether opening failed because of the path itself rather than because of the machine.
bool is_about_the_path(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EISDIR || error == EACCES || error == EPERM ||
         error == ENAMETOOLONG || error == ENXIO;
}

/// Whether a lock was refused because the file system, or its mount, does not support that kind of lock.
bool is_about_lock_support(int error) {
  return error == ENOLCK || error == ENOSYS || error == ENOTSUP || error == EINVAL || error == ENOTTY;
}

/// Returns 0 if the lock was granted, else the error.
template <class Lock>
int lock_error(const std::string& path, Lock lock) {
  if (ask(FileOperation::lock, path, "locking") == FileFault::unsupported) return ENOTSUP;
  while (lock() != 0)
    if (errno != EINTR) return errno;
  return 0;
}

/// "a file system of type 0x6969 (nfs)": by its magic number, as statfs(2) lists them.
std::string file_system_name(int descriptor) {
  struct statfs status {};
  if (fstatfs(descriptor, &status) != 0) return "its file system";
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  const std::pair<std::uint32_t, const char*> known[] = {
      {0x6969, "nfs"},      {0x0bd00bd0, "lustre"}, {0x65735546, "fuse"},  {0xff534d42, "cifs"},
      {0xfe534d42, "smb2"}, {0x517b, "smb"},        {0x01021997, "9p"},    {0x00c36400, "ceph"},
      {0x47504653, "gpfs"}, {0x19830326, "beegfs"}, {0x01021994, "tmpfs"}, {0x794c7630, "overlay"},
      {0xef53, "ext4"},     {0x58465342, "xfs"},    {0x9123683e, "btrfs"}, {0x5346414f, "afs"}};
  const auto* const found = std::find_if(std::begin(known), std::end(known), [&](const auto& entry) { return entry.first == magic; });
  return fmt::format("a file system of type {:#x}{}", magic, found == std::end(known) ? "" : fmt::format(" ({})", found->second));
}

int open_descriptor(const std::string& path, int flags) {
  while (true) {
    const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (descriptor >= 0 || errno != EINTR) return descriptor;
  }
}

}  // namespace

File File::open(const std::string& path, bool follow_links, ExitCode missing) {
  ask(FileOperation::open, path, "opening");
  // O_NONBLOCK: opening a named pipe must not wait for its writer.
  const int descriptor = open_descriptor(path, O_RDONLY | O_NONBLOCK | (follow_links ? 0 : O_NOFOLLOW));
  if (descriptor < 0 && errno == ELOOP && !follow_links)
    fail(missing, file_system_component, "opening {}: it is a symbolic link, expected a file", path);
  if (descriptor < 0) fail_with(is_about_the_path(errno) ? missing : ExitCode::storage, "opening", path, errno);
  File file(descriptor, path);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail_with(ExitCode::storage, "examining", path, errno);
  MILLRACE_CHECK(S_ISREG(status.st_mode), missing, file_system_component, "opening {}: it is not a file", path);
  return file;
}

File File::create(const std::string& path) {
  ask(FileOperation::create, path, "creating");
  const int descriptor = open_descriptor(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW);
  if (descriptor < 0) fail_with(ExitCode::storage, "creating", path, errno);
  return {descriptor, path};
}

File File::append(const std::string& path) {
  ask(FileOperation::create, path, "opening");
  const int descriptor = open_descriptor(path, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW);
  if (descriptor < 0) fail_with(ExitCode::storage, "opening", path, errno);
  return {descriptor, path};
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto part = bytes.first(std::min(bytes.size(), max_call_bytes));
    const auto fault = detail::ask_file_hook(FileOperation::write, path_, part.size());
    if (fault == FileFault::io_error) fail_with(ExitCode::storage, "writing", path_, EIO);
    const bool half = fault == FileFault::no_space || fault == FileFault::short_write || fault == FileFault::kill;
    if (half) part = part.first((part.size() + 1) / 2);
    for (auto rest = part; !rest.empty();)
      rest = rest.subspan(write_some(descriptor_, rest, std::nullopt, fault == FileFault::no_progress, path_));
    if (fault == FileFault::kill) _exit(killed_status);
    if (fault == FileFault::no_space) fail_with(ExitCode::storage, "writing", path_, ENOSPC);
    bytes = bytes.subspan(part.size());
  }
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void File::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto fault = ask(FileOperation::write, path_, "writing", bytes.size());
    const auto count = write_some(descriptor_, bytes, offset, fault == FileFault::no_progress, path_);
    bytes = bytes.subspan(count);
    offset += count;
  }
}

void File::read_at(std::uint64_t offset, std::span<std::byte> bytes, ExitCode short_file) const {
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), max_call_bytes));
    ask(FileOperation::read, path_, "reading", part.size());
    const auto count = ::pread(descriptor_, part.data(), part.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with(ExitCode::storage, "reading", path_, errno);
    MILLRACE_CHECK(count > 0, short_file, file_system_component, "reading {}: the file ends at byte {}, expected {} more: it was cut short",
                   path_, offset, bytes.size());
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::uint64_t File::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail_with(ExitCode::storage, "examining", path_, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void File::sync() {
  ask(FileOperation::sync, path_, "syncing");
  if (fsync(descriptor_) != 0) fail_with(ExitCode::storage, "syncing", path_, errno);
}

void File::drop_cache() const {
  ask(FileOperation::drop_cache, path_, "dropping the cache of");
  (void)posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
}

void File::truncate(std::uint64_t size) {
  ask(FileOperation::truncate, path_, "truncating");
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail_with(ExitCode::storage, "truncating", path_, errno);
}

bool File::try_lock() const {
  int error = lock_error(path_, [&] { return flock(descriptor_, LOCK_EX | LOCK_NB); });
  // A record lock of the open file description behaves as flock does, and some network file systems support only this one.
  if (is_about_lock_support(error)) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    error = lock_error(path_, [&] { return fcntl(descriptor_, F_OFD_SETLK, &whole); });
  }
  if (is_about_lock_support(error))
    fail(ExitCode::storage, file_system_component,
         "locking {}: {} has no file locks ({}): two jobs could write here at the same time without either noticing; expected a folder on "
         "a file system with locks (Lustre needs the mount option flock, NFS a running lock service)",
         path_, file_system_name(descriptor_), std::strerror(error));
  if (error != 0 && error != EWOULDBLOCK && error != EACCES) fail_with(ExitCode::storage, "locking", path_, error);
  return error == 0;
}

void rename_path(const std::string& from, const std::string& to) {
  ask(FileOperation::rename, from, "renaming", 0, to);
  if (::rename(from.c_str(), to.c_str()) != 0)
    fail(ExitCode::storage, file_system_component, "renaming {} to {}: {}", from, to, std::strerror(errno));
}

void remove_file(const std::string& path) {
  ask(FileOperation::unlink, path, "removing");
  if (::unlink(path.c_str()) != 0) fail_with(ExitCode::storage, "removing", path, errno);
}

void make_directory(const std::string& path, bool may_exist) {
  ask(FileOperation::make_directory, path, "making the folder");
  if (::mkdir(path.c_str(), 0755) == 0) return;
  const int error = errno;
  struct stat status {};
  if (may_exist && error == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
  fail_with(ExitCode::storage, "making the folder", path, error);
}

void make_directories(const std::string& path) {
  if (path.empty()) return;
  const auto parent = parent_path(path);
  struct stat status {};
  const bool is_there = ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  // it cannot be synced by us, and so was not created by one of our processes
  if (is_there && ::access(parent.c_str(), R_OK) != 0) return;
  if (!is_there) {
    if (parent != path) make_directories(parent);
    make_directory(path, true);
  }
  // Also syncs an existing folder, since its creator may have been killed before doing so.
  sync_directory(parent);
}

void remove_tree(const std::string& path) {
  const auto kind = kind_of(path);
  if (kind == PathKind::missing) return;
  if (kind != PathKind::directory) return remove_file(path);
  for (const auto& name : list_directory(path)) remove_tree(join_path(path, name));
  ask(FileOperation::remove_directory, path, "removing the folder");
  if (::rmdir(path.c_str()) != 0) fail_with(ExitCode::storage, "removing the folder", path, errno);
}

void sync_directory(const std::string& path) {
  ask(FileOperation::sync_directory, path, "syncing the folder");
  const int descriptor = open_descriptor(path, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail_with(ExitCode::storage, "opening the folder", path, errno);
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Some network file systems cannot sync a folder and report EINVAL; the rename itself is the best they offer.
  if (error != 0 && error != EINVAL && error != EROFS) fail_with(ExitCode::storage, "syncing the folder", path, error);
}

std::vector<std::string> list_directory(const std::string& path) {
  ask(FileOperation::list, path, "listing the folder");
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
  if (!directory) fail_with(ExitCode::storage, "listing the folder", path, errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const auto* entry = ::readdir(directory.get());
    if (entry == nullptr && errno != 0) fail_with(ExitCode::storage, "listing the folder", path, errno);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::uint64_t free_space(const std::string& path) {
  ask(FileOperation::space, path, "asking for the free space of");
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) fail_with(ExitCode::storage, "asking for the free space of", path, errno);
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

PathKind kind_of(const std::string& path) noexcept {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return PathKind::missing;
  if (S_ISREG(status.st_mode)) return PathKind::file;
  if (S_ISDIR(status.st_mode)) return PathKind::directory;
  return S_ISLNK(status.st_mode) ? PathKind::link : PathKind::other;
}

std::string read_text_file(const std::string& path, std::uint64_t limit, ExitCode code, bool follow_links) {
  const auto file = File::open(path, follow_links, code);
  const auto size = file.size();
  MILLRACE_CHECK(size <= limit, code, file_system_component, "reading {}: it has {}, expected at most {}", path, byte_count(size), limit);
  std::string text(size, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())), code);
  return text;
}

void write_text_file(const std::string& path, std::string_view text) {
  const auto temporary = path + ".tmp";
  {
    auto file = File::create(temporary);
    file.write(text);
    file.sync();
  }
  rename_path(temporary, path);
  sync_directory(parent_path(path));
}

void copy_file(const std::string& from, const std::string& to) {
  const auto source = File::open(from);
  auto copy = File::create(to);
  const auto size = source.size();
  std::vector<std::byte> part(std::min<std::uint64_t>(max_call_bytes, size));
  for (std::uint64_t offset = 0; offset < size; offset += part.size()) {
    part.resize(std::min<std::uint64_t>(part.size(), size - offset));
    source.read_at(offset, part);
    copy.write(part);
  }
  copy.sync();
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

}  // namespace millrace::runtime
