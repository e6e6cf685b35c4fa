#include "runtime/data/text_files.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <system_error>

#include "kernels/base/check.hpp"

namespace millrace::runtime {
namespace fs = std::filesystem;
namespace {

/// "data.text = FILE", or the file alone where it is not the value of a key.
std::string named(std::string_view key, const std::string& source) { return key.empty() ? source : fmt::format("{} = {}", key, source); }

[[noreturn]] void refuse(const fs::path& path, const std::error_code& error) {
  fail(ExitCode::data, "data", "{}: cannot be read: {}", path.string(), error.message());
}

std::uint64_t size_of_file(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) refuse(path, error);
  return size;
}

bool has_suffix(const std::string& name, std::span<const std::string> suffixes) {
  return suffixes.empty() ||
         std::any_of(suffixes.begin(), suffixes.end(), [&](const std::string& suffix) { return name.ends_with(suffix); });
}

bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// Lists `folder`, whose files are named from `base`. `read`: the real places of what is being listed, outermost first. A link to a folder
/// is followed unless that is listed anyway, or contains what is.
void list_folder(const fs::path& folder, const fs::path& base, std::span<const std::string> suffixes, std::vector<fs::path>& read,
                 std::vector<DataFile>& files) {
  std::error_code error;
  read.push_back(fs::canonical(folder, error));
  if (error) refuse(folder, error);
  fs::recursive_directory_iterator entry(folder, error);
  if (error) refuse(folder, error);
  for (const fs::recursive_directory_iterator end; entry != end;) {
    const fs::path path = entry->path();
    std::error_code type_error;  // a dangling link is not a file and is skipped
    if (entry->is_regular_file(type_error) && has_suffix(path.filename().string(), suffixes)) {
      files.push_back({path, path.lexically_relative(base).string(), size_of_file(path)});
    } else if (entry->is_symlink(type_error) && entry->is_directory(type_error)) {
      const auto place = fs::canonical(path, error);
      if (error) refuse(path, error);
      const bool apart = std::ranges::none_of(read, [&](const fs::path& one) { return is_within(place, one) || is_within(one, place); });
      if (apart) list_folder(path, base, suffixes, read, files);
    }
    entry.increment(error);
    if (error) refuse(path, error);
  }
  read.pop_back();
}

void refuse_twice(std::span<const DataFile> files) {
  std::map<fs::path, const DataFile*> known;
  for (const DataFile& file : files) {
    const auto [first, is_new] = known.emplace(place_of(file.path), &file);
    MILLRACE_CHECK(is_new, ExitCode::data, "data", "{}: found twice, by two entries of the list (before as {})", file.path.string(),
                   first->second->path.string());
  }
}

}  // namespace

fs::path place_of(const fs::path& file) {
  std::error_code error;
  const fs::path folder = fs::canonical(file.has_parent_path() ? file.parent_path() : ".", error);
  if (error) refuse(file, error);
  return folder / file.filename();
}

std::vector<DataFile> list_data_files(std::span<const std::string> sources, std::span<const std::string> suffixes, std::string_view key) {
  std::vector<DataFile> files;
  for (const std::string& source : sources) {
    const fs::path path(source);
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) fail(ExitCode::data, "data", "{}: no such file or folder", named(key, source));
    if (error) refuse(path, error);
    if (fs::is_directory(status)) {
      std::vector<fs::path> read;
      list_folder(path, path, suffixes, read, files);
    } else {
      MILLRACE_CHECK(fs::is_regular_file(status), ExitCode::data, "data", "{}: neither a regular file nor a folder", named(key, source));
      files.push_back({path, path.filename().string(), size_of_file(path)});
    }
  }
  MILLRACE_CHECK(!files.empty(), ExitCode::data, "data", "{}: no files found, expected one or more{}",
                 named(key, fmt::format("{}", fmt::join(sources, ", "))),
                 suffixes.empty() ? "" : fmt::format(" whose name ends in {}", fmt::join(suffixes, " or ")));
  const auto by_bytes = [](const DataFile& a, const DataFile& b) { return a.path.native() < b.path.native(); };
  std::sort(files.begin(), files.end(), by_bytes);
  refuse_twice(files);
  return files;
}

SplitFiles split_held_out(std::vector<DataFile> files, std::int64_t every) {
  SplitFiles split;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool held_out = every > 0 && (static_cast<std::int64_t>(i) + 1) % every == 0;
    (held_out ? split.held_out : split.train).push_back(std::move(files[i]));
  }
  return split;
}

bool reads_as_text(std::span<const std::byte> bytes) {
  constexpr std::size_t enough = 64, looked_at = 4096;
  if (bytes.empty() || (bytes.size() < enough && bytes.size() % 2 == 0)) return false;
  std::size_t follow = 0;  // bytes of the current character that are still to come
  for (const std::byte each : bytes.first(std::min(bytes.size(), looked_at))) {
    const auto byte = static_cast<unsigned char>(each);
    const bool follows = byte >= 0x80 && byte < 0xc0;
    if (follows != (follow > 0)) return false;
    if (follows)
      --follow;
    else if (byte >= 0xc2 && byte < 0xf5)
      follow = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    else if (byte == 0x7f || byte > 0x7f || (byte < 0x20 && (byte < '\t' || byte > '\r')))
      return false;
  }
  return follow == 0 || bytes.size() > looked_at;
}

std::string data_fingerprint(std::span<const DataFile> files) {
  std::string list;
  for (const DataFile& file : files) list += fmt::format("{}:{}:{}\n", file.name.size(), file.name, file.size);
  const XXH128_hash_t hash = XXH3_128bits(list.data(), list.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace millrace::runtime
