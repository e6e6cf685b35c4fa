#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "runtime/data/mapped_file.hpp"

namespace millrace::runtime {

/// The first bytes of an .idx file of Megatron's IndexedDataset.
inline constexpr std::string_view megatron_magic("MMIDIDX\0\0", 9);

/// The .idx file beside a .bin of Megatron-LM. It says where the sequences end whose tokens are stored one after another in the
/// .bin. Little-endian, packed:
///   9 bytes  magic;  u64 version, 1;  u8 token type: 1 u8, 4 i32, 8 u16 (other codes are not token ids);  u64 sequences S;  u64 borders D
///   i32[S]   length of each sequence in tokens
///   i64[S]   offset of its first byte in the .bin
///   i64[D]   index of the sequence that each document begins with; the first is 0, the last S
///   i8[S]    modes, only in multimodal sets; ignored
/// All members are const, allocate nothing and may be called from several threads at once.
class MegatronIndex {
 public:
  /// Reads and checks the whole index: sizes, lengths, borders, and that the sequences fill the `bin_bytes` bytes of the .bin
  /// without gaps. Errors: Error(data), each with the path.
  MegatronIndex(const std::filesystem::path& path, std::uint64_t bin_bytes);

  [[nodiscard]] int width() const noexcept { return width_; }  // bytes per token
  [[nodiscard]] std::int64_t tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t sequences() const noexcept { return sequences_; }
  [[nodiscard]] std::int64_t documents() const noexcept { return borders_ - 1; }

  /// The index of the last token of the sequence that contains token `index`.
  [[nodiscard]] std::int64_t end_of_sequence(std::int64_t index) const noexcept;

 private:
  [[nodiscard]] std::int64_t first_token(std::int64_t sequence) const noexcept;
  void check_sizes(const std::filesystem::path& path);
  void check_sequences(const std::filesystem::path& path, std::uint64_t bin_bytes);
  void check_borders(const std::filesystem::path& path) const;

  MappedFile file_;
  int width_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t sequences_ = 0;
  std::int64_t borders_ = 0;
  const std::byte* lengths_ = nullptr;
  const std::byte* offsets_ = nullptr;
  const std::byte* documents_ = nullptr;
};

/// The path of the .idx that belongs to a .bin; empty if there is none.
[[nodiscard]] std::filesystem::path megatron_index_beside(const std::filesystem::path& bin);

}  // namespace millrace::runtime
