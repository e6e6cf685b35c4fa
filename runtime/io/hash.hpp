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

/// An XXH3-128 hash.
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

/// The same hash, computed in pieces: the result does not depend on where the pieces end.
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

/// Tensors are hashed in chunks of this size, so that damage can be located by its offset.
inline constexpr std::size_t hash_chunk_bytes = std::size_t{4} << 20;

/// One hash per 4 MiB chunk of a tensor, the last chunk shorter; none for an empty tensor.
[[nodiscard]] std::vector<Hash128> chunk_hashes(std::span<const std::byte> bytes);
/// Copies and hashes what it reads, chunk by chunk, so that the hashes are valid for the copy too. The spans must have the same
/// size.
[[nodiscard]] std::vector<Hash128> copy_with_hashes(std::span<const std::byte> source, std::span<std::byte> destination);
/// Bytes of a tensor that are hashed together.
struct ChunkRange {
  std::uint64_t offset = 0, bytes = 0;
};
/// The chunks of `parts` equal parts of a tensor, one part after another: each begins with a chunk of its own, so that its hashes are the
/// same wherever the part is.
[[nodiscard]] std::vector<ChunkRange> chunk_ranges(std::uint64_t bytes, std::uint64_t parts = 1);
/// The hash of a tensor, computed from those of its chunks.
[[nodiscard]] Hash128 hash_of_chunks(std::span<const Hash128> chunks);

/// The hash of a model's or a training run's state: over (name, dtype, shape, bytes) in order of names. It is therefore
/// independent of files, of layouts and of which rank held which tensor. Ranks add their own tensors; the coordinator merges what
/// they serialise.
class StateHash {
 public:
  void add(const std::string& name, std::string_view dtype, std::span<const std::int64_t> shape, Hash128 tensor);
  /// Adds a tensor; hashes the bytes as hash_of_chunks(chunk_hashes(bytes)).
  void add(const std::string& name, std::string_view dtype, std::span<const std::int64_t> shape, std::span<const std::byte> bytes);
  /// Adds the tensors of another StateHash. A name that both have must have the same hash (replicas), else Error(internal) with
  /// the name.
  void merge(const StateHash& other);

  [[nodiscard]] Hash128 digest() const;
  [[nodiscard]] std::size_t size() const noexcept { return lines_.size(); }
  /// The hash as text for a message; from_text(text()) has the same digest.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static StateHash from_text(std::string_view text);

 private:
  void insert(const std::string& name, std::string line);
  std::map<std::string, std::string> lines_;  // name → "dtype shape hash"
};

}  // namespace millrace::runtime
