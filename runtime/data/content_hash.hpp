#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/base/thread_team.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::runtime {

/// What the file system says of a file. As long as it says the same, the bytes are the same.
struct FileStamp {
  std::uint64_t size = 0;
  std::uint64_t inode = 0;
  std::int64_t modified = 0;  // nanoseconds since 1970: of the last write, which programs may set back
  std::int64_t changed = 0;   // of the last change to file or inode, which they cannot; 0: the stamp proves nothing

  bool operator==(const FileStamp&) const = default;
};

/// The content of a file: the hash of the hashes of its 4 MiB chunks (hash_of_chunks).
struct FileContent {
  std::string name;  // DataFile::name
  FileStamp stamp;
  Hash128 hash;
};

/// Hashes the files with all threads of the team, through a small buffer each; those whose name and stamp are among `known` are not read.
/// `done` counts the bytes that are hashed or known, from another thread's view. A file that was written within the last two seconds gets a
/// stamp that proves nothing, since the next write may leave the same times.
/// Errors: Error(data) for a file that cannot be read or changes meanwhile, Error(storage).
[[nodiscard]] std::vector<FileContent> hash_files(std::span<const DataFile> files, std::span<const FileContent> known,
                                                  kernels::ThreadTeam& team, std::atomic<std::uint64_t>& done);

/// One hash for all: over names, sizes and hashes in their order.
[[nodiscard]] Hash128 hash_of_contents(std::span<const FileContent> contents);

/// Contents as text, one line a file, "hash size inode modified changed name". Files whose names cannot stand in a line are left out, and
/// so are lines that cannot be read: their content is then not known.
[[nodiscard]] std::string to_text(std::span<const FileContent> contents);
[[nodiscard]] std::vector<FileContent> contents_from_text(std::string_view text);

}  // namespace millrace::runtime
