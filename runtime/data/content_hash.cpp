#include "runtime/data/content_hash.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "kernels/base/check.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::runtime {
namespace {

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec; }

FileStamp stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail(ExitCode::data, "data", "{}: cannot be read: {}", path.string(), std::strerror(errno));
  return {static_cast<std::uint64_t>(status.st_size), status.st_ino, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)};
}

/// The margin covers coarse file-system clocks and servers whose clock differs a little.
FileStamp proof(FileStamp stamp, std::int64_t now) {
  constexpr std::int64_t recent = 2'000'000'000;
  if (std::max(stamp.modified, stamp.changed) > now - recent) stamp.changed = 0;
  return stamp;
}

std::int64_t time_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A chunk of a file; the next free thread hashes it.
struct Chunk {
  std::size_t file = 0;
  std::uint64_t offset = 0;
};

template <class Number>
bool take(std::string_view& line, Number& number) {
  const auto end = line.find(' ');
  if (end == std::string_view::npos) return false;
  const auto result = std::from_chars(line.data(), line.data() + end, number);
  if (result.ec != std::errc{} || result.ptr != line.data() + end) return false;
  line.remove_prefix(end + 1);
  return true;
}

std::optional<FileContent> content_of(std::string_view line) {
  constexpr std::size_t digits = 32;
  FileContent content;
  if (line.size() <= digits || line[digits] != ' ') return std::nullopt;
  try {
    content.hash = Hash128::from_hex(line.substr(0, digits));
  } catch (const Error&) {
    return std::nullopt;
  }
  line.remove_prefix(digits + 1);
  auto& stamp = content.stamp;
  if (!take(line, stamp.size) || !take(line, stamp.inode) || !take(line, stamp.modified) || !take(line, stamp.changed)) return std::nullopt;
  content.name = line;
  return content;
}

}  // namespace

std::vector<FileContent> hash_files(std::span<const DataFile> files, std::span<const FileContent> known, kernels::ThreadTeam& team,
                                    std::atomic<std::uint64_t>& done) {
  std::map<std::string_view, const FileContent*> known_by_name;
  for (const FileContent& content : known) known_by_name.emplace(content.name, &content);
  const std::int64_t now = time_now();
  std::vector<FileContent> contents;
  std::vector<std::vector<Hash128>> hashes(files.size());
  std::vector<Chunk> chunks;
  for (std::size_t file = 0; file < files.size(); ++file) {
    FileContent content{files[file].name, stamp_of(files[file].path), {}};
    const auto found = known_by_name.find(content.name);
    if (found != known_by_name.end() && found->second->stamp == content.stamp) {
      content.hash = found->second->hash;
      done += content.stamp.size;
    } else {
      hashes[file].resize((content.stamp.size + hash_chunk_bytes - 1) / hash_chunk_bytes);
      for (std::size_t chunk = 0; chunk < hashes[file].size(); ++chunk) chunks.push_back({file, chunk * hash_chunk_bytes});
    }
    contents.push_back(std::move(content));
  }

  std::atomic<std::size_t> next{0};
  team.run([&](int, int) {
    std::vector<std::byte> buffer(hash_chunk_bytes);
    try {
      for (std::size_t at = next++; at < chunks.size(); at = next++) {
        const auto [file, offset] = chunks[at];
        const auto part = std::span(buffer).first(std::min<std::uint64_t>(hash_chunk_bytes, contents[file].stamp.size - offset));
        File::open(files[file].path.string(), true, ExitCode::data).read_at(offset, part, ExitCode::data);
        hashes[file][offset / hash_chunk_bytes] = hash_of(std::span<const std::byte>(part));
        done += part.size();
      }
    } catch (...) {
      next = chunks.size();  // makes the other threads stop as well
      throw;
    }
  });

  for (std::size_t file = 0; file < files.size(); ++file) {
    FileContent& content = contents[file];
    const auto found = known_by_name.find(content.name);
    if (found != known_by_name.end() && found->second->stamp == content.stamp) continue;
    MILLRACE_CHECK(stamp_of(files[file].path) == content.stamp, ExitCode::data, "data", "{}: was changed while it was read",
                   files[file].path.string());
    content.hash = hash_of_chunks(hashes[file]);
    content.stamp = proof(content.stamp, now);
  }
  return contents;
}

Hash128 hash_of_contents(std::span<const FileContent> contents) {
  std::string list;
  for (const FileContent& content : contents)
    list += fmt::format("{}:{}:{}:{}\n", content.name.size(), content.name, content.stamp.size, content.hash.hex());
  return hash_of(list);
}

std::string to_text(std::span<const FileContent> contents) {
  std::string text;
  for (const auto& [name, stamp, hash] : contents) {
    if (name.find('\n') != std::string::npos) continue;
    text += fmt::format("{} {} {} {} {} {}\n", hash.hex(), stamp.size, stamp.inode, stamp.modified, stamp.changed, name);
  }
  return text;
}

std::vector<FileContent> contents_from_text(std::string_view text) {
  std::vector<FileContent> contents;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    if (auto content = content_of(text.substr(0, end))) contents.push_back(std::move(*content));
    text.remove_prefix(end + 1);
  }
  return contents;
}

}  // namespace millrace::runtime
