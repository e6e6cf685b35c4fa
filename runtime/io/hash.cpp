#include "runtime/io/hash.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "kernels/base/check.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millrace::runtime {
namespace {

constexpr const char* hash_component = "runtime.hash";

Hash128 from_xxh(XXH128_hash_t hash) noexcept { return {hash.high64, hash.low64}; }

}  // namespace

std::string Hash128::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 Hash128::from_hex(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  MILLRACE_CHECK(text.size() == 32 && std::all_of(text.begin(), text.end(), is_digit), ExitCode::checkpoint, hash_component,
                 "'{}' is not a hash, expected 32 hexadecimal digits", text.substr(0, 64));
  const auto value = [](std::string_view half) { return std::strtoull(std::string(half).c_str(), nullptr, 16); };
  return {value(text.substr(0, 16)), value(text.substr(16))};
}

Hash128 hash_of(std::span<const std::byte> bytes) noexcept { return from_xxh(XXH3_128bits(bytes.data(), bytes.size())); }
Hash128 hash_of(std::string_view text) noexcept { return from_xxh(XXH3_128bits(text.data(), text.size())); }

struct StreamHash::State {
  XXH3_state_t xxh;
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) { reset(); }
StreamHash::~StreamHash() = default;
void StreamHash::update(std::span<const std::byte> bytes) noexcept { XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size()); }
Hash128 StreamHash::digest() const noexcept { return from_xxh(XXH3_128bits_digest(&state_->xxh)); }
void StreamHash::reset() noexcept { XXH3_128bits_reset(&state_->xxh); }

std::vector<Hash128> chunk_hashes(std::span<const std::byte> bytes) {
  std::vector<Hash128> hashes;
  hashes.reserve(bytes.size() / hash_chunk_bytes + 1);
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), hash_chunk_bytes)))
    hashes.push_back(hash_of(bytes.first(std::min(bytes.size(), hash_chunk_bytes))));
  return hashes;
}

std::vector<Hash128> copy_with_hashes(std::span<const std::byte> source, std::span<std::byte> destination) {
  MILLRACE_CHECK(source.size() == destination.size(), ExitCode::internal, hash_component, "copying {} bytes into {}", source.size(),
                 destination.size());
  std::vector<Hash128> hashes;
  hashes.reserve(source.size() / hash_chunk_bytes + 1);
  for (std::size_t offset = 0; offset < source.size(); offset += hash_chunk_bytes) {
    const auto part = source.subspan(offset, std::min(hash_chunk_bytes, source.size() - offset));
    hashes.push_back(hash_of(part));
    std::memcpy(destination.data() + offset, part.data(), part.size());
  }
  return hashes;
}

std::vector<ChunkRange> chunk_ranges(std::uint64_t bytes, std::uint64_t parts) {
  std::vector<ChunkRange> ranges;
  const std::uint64_t part = bytes / parts;
  for (std::uint64_t begin = 0; part > 0 && begin < bytes; begin += part)
    for (std::uint64_t offset = 0; offset < part; offset += hash_chunk_bytes)
      ranges.push_back({begin + offset, std::min<std::uint64_t>(hash_chunk_bytes, part - offset)});
  return ranges;
}

Hash128 hash_of_chunks(std::span<const Hash128> chunks) {
  std::string text;
  text.reserve(chunks.size() * 32);
  for (const auto& chunk : chunks) text += chunk.hex();
  return hash_of(text);
}

void StateHash::add(const std::string& name, std::string_view dtype, std::span<const std::int64_t> shape, Hash128 tensor) {
  insert(name, fmt::format("{} [{}] {}", dtype, fmt::join(shape, ","), tensor.hex()));
}

void StateHash::add(const std::string& name, std::string_view dtype, std::span<const std::int64_t> shape,
                    std::span<const std::byte> bytes) {
  add(name, dtype, shape, hash_of_chunks(chunk_hashes(bytes)));
}

void StateHash::insert(const std::string& name, std::string line) {
  MILLRACE_CHECK(name.find_first_of("\t\n") == std::string::npos, ExitCode::internal, hash_component,
                 "a tensor name contains a tab or a line end");
  const auto [place, is_new] = lines_.emplace(name, std::move(line));
  MILLRACE_CHECK(is_new, ExitCode::internal, hash_component, "tensor '{}' was added twice", place->first);
}

void StateHash::merge(const StateHash& other) {
  for (const auto& [name, line] : other.lines_) {
    const auto [place, is_new] = lines_.emplace(name, line);
    MILLRACE_CHECK(is_new || place->second == line, ExitCode::internal, hash_component, "two holders of tensor '{}' differ: {} and {}",
                   name, place->second, line);
  }
}

Hash128 StateHash::digest() const { return hash_of(text()); }

std::string StateHash::text() const {
  std::string text;
  for (const auto& [name, line] : lines_) text.append(name).append("\t").append(line).append("\n");
  return text;
}

StateHash StateHash::from_text(std::string_view text) {
  StateHash hash;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto tab = text.find('\t');
    MILLRACE_CHECK(end != std::string_view::npos && tab < end, ExitCode::internal, hash_component, "a state hash of {} bytes has no end",
                   text.size());
    hash.insert(std::string(text.substr(0, tab)), std::string(text.substr(tab + 1, end - tab - 1)));
    text.remove_prefix(end + 1);
  }
  return hash;
}

}  // namespace millrace::runtime
