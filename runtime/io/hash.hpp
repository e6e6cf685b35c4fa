#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::runtime {

/// XXH3-128 of some bytes.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// 32 lower-case hexadecimal digits, as `xxh128sum` prints them.
  [[nodiscard]] std::string hex() const;
  /// Error(checkpoint) unless the text is exactly 32 lower-case hexadecimal digits.
  [[nodiscard]] static Hash128 from_hex(std::string_view text);
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

[[nodiscard]] Hash128 hash_of(std::span<const std::byte> bytes) noexcept;
[[nodiscard]] Hash128 hash_of(std::string_view text) noexcept;

/// The same, in pieces: the result does not depend on where the pieces end.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void update(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] Hash128 digest() const noexcept;
  void reset() noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Tensors are hashed in chunks, so that a damaged one can be named by its offset.
inline constexpr std::size_t hash_chunk_bytes = std::size_t{4} << 20;

/// One hash for each 4 MiB of a tensor, the last one shorter; none for a tensor without bytes.
[[nodiscard]] std::vector<Hash128> chunk_hashes(std::span<const std::byte> bytes);
/// Copies and hashes what it read, chunk by chunk, so that the hashes vouch for the copy too. The spans have the same size.
[[nodiscard]] std::vector<Hash128> copy_with_hashes(std::span<const std::byte> source, std::span<std::byte> destination);
/// The hash of a tensor from those of its chunks.
[[nodiscard]] Hash128 hash_of_chunks(std::span<const Hash128> chunks);

/// The hash of a model's or a training run's state: over (name, dtype, shape, bytes) in order of names, and so independent of who held
/// which tensor, of files and of layouts. Ranks add their own tensors; the coordinator merges what they serialise.
class StateHash {
 public:
  void add(const std::string& name, std::string_view dtype, std::span<const std::int64_t> shape, Hash128 tensor);
  /// Hashes the bytes as hash_of_chunks(chunk_hashes(bytes)).
  void add(const std::string& name, std::string_view dtype, std::span<const std::int64_t> shape, std::span<const std::byte> bytes);
  /// Takes over another's tensors. A name that both have must have the same hash (replicas), else Error(internal) with the name.
  void merge(const StateHash& other);

  [[nodiscard]] Hash128 digest() const;
  [[nodiscard]] std::size_t size() const noexcept { return lines_.size(); }
  /// Text for a message; from_text(text()) has the same digest.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static StateHash from_text(std::string_view text);

 private:
  void insert(const std::string& name, std::string line);
  std::map<std::string, std::string> lines_;  // name → "dtype shape hash"
};

}  // namespace millrace::runtime
