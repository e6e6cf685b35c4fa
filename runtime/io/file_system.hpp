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

/// The only place through which this program accesses files. Each call asks the hook of fault.hpp first, so that tests can make
/// call k fail for every k. Failures throw Error(storage) unless stated otherwise, with the operation, the path and the system's
/// message. Thread: any; one File belongs to one thread at a time.

/// An open file. The destructor closes it; child processes never inherit it.
class File {
 public:
  /// Opens for reading. With `follow_links` false a symbolic link is an error. `missing` is the exit code if the path does not
  /// exist, is not a file or is not permitted; a failing disk is always Error(storage).
  [[nodiscard]] static File open(const std::string& path, bool follow_links = true, ExitCode missing = ExitCode::storage);
  /// Creates an empty file for writing and reading back. A symbolic link at the path is an error.
  [[nodiscard]] static File create(const std::string& path);
  /// Opens for appending; creates the file if it does not exist.
  [[nodiscard]] static File append(const std::string& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  /// Appends all bytes, in calls of at most 4 MiB.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Overwrites the bytes at `offset`, extending the file if necessary; not for a file opened by append(). The file position does
  /// not change.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Reads exactly bytes.size() bytes from `offset`. A file that has become shorter is an Error(short_file).
  void read_at(std::uint64_t offset, std::span<std::byte> bytes, ExitCode short_file = ExitCode::storage) const;
  /// The size in bytes, as fstat reports it now.
  [[nodiscard]] std::uint64_t size() const;
  /// Syncs the file: it is on the disk when this returns (fsync).
  void sync();
  /// Asks the system to drop the file from its page cache, so that the next read comes from the disk.
  void drop_cache() const;
  void truncate(std::uint64_t size);
  /// Takes the file's lock for the lifetime of this File; returns false if another process has it. If flock is not supported, a
  /// record lock of the open file description is taken instead. If neither is, Error(storage) with the file system's name, since
  /// a second writer would go unnoticed.
  [[nodiscard]] bool try_lock() const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_ = -1;
  std::string path_;
};

/// Atomic within one file system; durable only after sync_directory() of the parent.
void rename_path(const std::string& from, const std::string& to);
void remove_file(const std::string& path);
/// Creates one folder; its parents must exist. With `may_exist` an existing folder is no error.
void make_directory(const std::string& path, bool may_exist = false);
/// Creates a folder and its parents. All new ones are durable when this returns, and so is an existing folder, which a killed
/// process may have created without syncing.
void make_directories(const std::string& path);
/// Removes a folder with its contents. Links are removed, not followed. A missing folder is no error.
void remove_tree(const std::string& path);
/// Makes renames, creations and removals in the folder durable.
void sync_directory(const std::string& path);
/// The names in the folder in byte order, without "." and "..".
[[nodiscard]] std::vector<std::string> list_directory(const std::string& path);
/// The number of bytes that can still be written there.
[[nodiscard]] std::uint64_t free_space(const std::string& path);

enum class PathKind : std::uint8_t { missing, file, directory, link, other };
/// The kind of the path itself; links are not followed. Asks no hook, since it changes nothing; an error counts as "missing".
[[nodiscard]] PathKind kind_of(const std::string& path) noexcept;

/// Reads the whole file, at most `limit` bytes. Errors have the exit code `code`.
[[nodiscard]] std::string read_text_file(const std::string& path, std::uint64_t limit, ExitCode code, bool follow_links = true);
/// Writes a temporary file, syncs it, renames it to `path` and syncs the folder: afterwards the file has either the old text or
/// the new, whatever happens in between.
void write_text_file(const std::string& path, std::string_view text);
/// Creates a copy of a file, synced when this returns. Its name is durable once the folder is synced.
void copy_file(const std::string& from, const std::string& to);

/// Joins two parts with one slash: "a/b".
[[nodiscard]] std::string join_path(std::string_view folder, std::string_view name);
/// The parent: "a" for "a/b", "." for "b".
[[nodiscard]] std::string parent_path(std::string_view path);

}  // namespace millrace::runtime
