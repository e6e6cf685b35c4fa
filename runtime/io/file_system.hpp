#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::runtime {

/// The one seam through which this program touches files. Each call asks the hook of fault.hpp first, so that tests can make call k fail,
/// for every k. Failures throw Error(storage) unless said otherwise, with the operation, the path and the system's words. Thread: any; one
/// File belongs to one thread at a time.

/// An open file. Closed when it goes; never inherited by child processes.
class File {
 public:
  /// For reading. With `follow_links` false a symbolic link is an error. `missing` is the exit code if the path is
  /// missing, not a file or not allowed; a disk that fails is Error(storage) always.
  [[nodiscard]] static File open(const std::string& path, bool follow_links = true, ExitCode missing = ExitCode::storage);
  /// For writing and reading back: new and empty. A symbolic link in its place is an error.
  [[nodiscard]] static File create(const std::string& path);
  /// For writing at the end; created if it is not there.
  [[nodiscard]] static File append(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// Writes all bytes at the end of what was written, in calls of at most 4 MiB.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Writes all bytes over what is at `offset`; not for a file opened by append(). The end of the file is where it was, or further.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Reads exactly bytes.size() bytes from `offset`. A file that has become shorter is an Error(short_file).
  void read_at(std::uint64_t offset, std::span<std::byte> bytes, ExitCode short_file = ExitCode::storage) const;
  /// Bytes, as fstat sees them now.
  [[nodiscard]] std::uint64_t size() const;
  /// On the disk when this returns (fsync).
  void sync();
  /// Asks the system to forget its copy in memory, so that the next read comes from the disk.
  void drop_cache() const;
  void truncate(std::uint64_t size);
  /// Takes the file's lock for as long as this File lives; false if another process has it. Where flock does not work, a record lock of the
  /// open file is taken instead. Error(storage) that names the file system where neither works: nobody would notice a second writer.
  [[nodiscard]] bool try_lock() const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_ = -1;
  std::string path_;
};

/// Atomic within one file system; durable only after sync_directory of the parent.
void rename_path(const std::string& from, const std::string& to);
void remove_file(const std::string& path);
/// One folder; its parents are not made. With `may_exist` an existing folder is no error.
void make_directory(const std::string& path, bool may_exist = false);
/// With its parents; each that is new is on the disk when this returns, and so is the folder itself where a killed process made it.
void make_directories(const std::string& path);
/// A folder with all that is in it. Links are removed, not followed. Nothing there is no error.
void remove_tree(const std::string& path);
/// Makes renames, creations and removals in the folder durable.
void sync_directory(const std::string& path);
/// Names in the folder in byte order, without "." and "..".
[[nodiscard]] std::vector<std::string> list_directory(const std::string& path);
/// Bytes that may still be written there.
[[nodiscard]] std::uint64_t free_space(const std::string& path);

enum class PathKind : std::uint8_t { missing, file, directory, link, other };
/// What is at the path itself; links are not followed. Asks no hook: it changes nothing and an error here is "missing".
[[nodiscard]] PathKind kind_of(const std::string& path) noexcept;

/// The whole file, at most `limit` bytes. Errors have `code`.
[[nodiscard]] std::string read_text_file(const std::string& path, std::uint64_t limit, ExitCode code, bool follow_links = true);
/// Temporary file, fsync, rename over `path`, fsync of the folder: afterwards there is the old text or the new, whatever happens in
/// between.
void write_text_file(const std::string& path, std::string_view text);
/// A new file with the bytes of another, on the disk when this returns; its name in the folder once that is synced.
void copy_file(const std::string& from, const std::string& to);

/// "a/b", with one slash.
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);
/// "a" of "a/b"; "." of "b".
[[nodiscard]] std::string parent_path(std::string_view path);

}  // namespace millrace::runtime
