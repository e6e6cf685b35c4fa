#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/base/mix.hpp"

namespace millrace::runtime {

/// A cache of the ids of short pieces, since words recur. One entry per hash; the newest replaces the older. Belongs to one
/// thread at a time.
class PieceCache {
 public:
  static constexpr std::size_t max_length = 16;  // bytes of a cached piece
  static constexpr std::size_t max_ids = 6;      // ids of a cached piece

  struct Key {
    std::uint64_t low = 0, high = 0;
    std::uint64_t length = 0;
  };
  struct Entry {
    std::uint64_t low = 0, high = 0;
    std::uint32_t length = 0;  // 0: the entry is free, since no piece is empty
    std::uint32_t count = 0;
    std::array<std::int32_t, max_ids> ids{};
  };

  PieceCache() : entries_(std::size_t{1} << bits) {}

  /// `piece` has at most `max_length` bytes; `readable` is the number of bytes that may be read from its beginning.
  [[nodiscard]] static Key key_of(std::string_view piece, std::size_t readable) noexcept {
    Key key{0, 0, piece.size()};
    if (readable >= max_length) {
      std::memcpy(&key.low, piece.data(), 8);
      std::memcpy(&key.high, piece.data() + 8, 8);
      key.low &= mask(piece.size());
      key.high &= piece.size() > 8 ? mask(piece.size() - 8) : 0;
    } else {
      std::memcpy(&key.low, piece.data(), piece.size() < 8 ? piece.size() : 8);
      if (piece.size() > 8) std::memcpy(&key.high, piece.data() + 8, piece.size() - 8);
    }
    return key;
  }
  /// The entry of the piece, or the one where it would be stored.
  [[nodiscard]] Entry& at(const Key& key) noexcept {
    const std::uint64_t hash = (key.low * golden_ratio) ^ ((key.high + key.length) * 0xc2b2ae3d27d4eb4fULL);
    return entries_[(hash ^ hash >> 29) * golden_ratio >> (64 - bits)];
  }
  [[nodiscard]] static bool holds(const Entry& entry, const Key& key) noexcept {
    return entry.low == key.low && entry.high == key.high && entry.length == key.length;
  }
  /// Stores the ids, unless there are too many.
  static void keep(Entry& entry, const Key& key, std::span<const std::int32_t> ids) noexcept {
    if (ids.size() > max_ids) return;
    entry.low = key.low;
    entry.high = key.high;
    entry.length = static_cast<std::uint32_t>(key.length);
    entry.count = static_cast<std::uint32_t>(ids.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr unsigned bits = 15;  // 1.5 MiB
  [[nodiscard]] static std::uint64_t mask(std::size_t bytes) noexcept {
    return bytes >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * bytes)) - 1;
  }

  std::vector<Entry> entries_;
};

}  // namespace millrace::runtime
