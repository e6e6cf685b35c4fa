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

/// The metadata that the file system reports for a file. As long as they are unchanged, the bytes are taken to be unchanged.
struct FileStamp {
  std::uint64_t size = 0;
  std::uint64_t inode = 0;
  std::int64_t modified = 0;  // time of the last write, in nanoseconds since 1970; programs can set it back
  std::int64_t changed = 0;   // time of the last change to file or inode, which programs cannot set; 0: the stamp proves nothing

  bool operator==(const FileStamp&) const = default;
};

/// The content of a file as a hash: the hash over the hashes of its 4 MiB chunks (hash_of_chunks).
struct FileContent {
  std::string name;  // DataFile::name
  FileStamp stamp;
  Hash128 hash;
};

/// Hashes the files with all threads of the team, through a small buffer per thread. Files whose name and stamp are among `known`
/// are not read. `done` counts the bytes hashed or known so far and may be read from another thread. A file written within the
/// last two seconds gets a stamp that proves nothing, since a further write may leave the same times. Errors: Error(data) for a
/// file that cannot be read or changes during the read, Error(storage).
[[nodiscard]] std::vector<FileContent> hash_files(std::span<const DataFile> files, std::span<const FileContent> known,
                                                  kernels::ThreadTeam& team, std::atomic<std::uint64_t>& done);

/// One hash over the names, sizes and hashes of the files, in order.
[[nodiscard]] Hash128 hash_of_contents(std::span<const FileContent> contents);

/// Contents as text, one line per file: "hash size inode modified changed name". Files whose names cannot be written in one line
/// are left out; lines that cannot be parsed are skipped. Their content counts as unknown.
[[nodiscard]] std::string to_text(std::span<const FileContent> contents);
[[nodiscard]] std::vector<FileContent> contents_from_text(std::string_view text);

}  // namespace millrace::runtime
