#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/data/mapped_file.hpp"
#include "runtime/data/megatron_index.hpp"

namespace millrace::runtime {

enum class TokenFormat : std::uint8_t { llmc_u16, llmc_u32, nanogpt_u16, megatron };

/// What a person is told: "llm.c, 16 bits a token".
[[nodiscard]] const char* to_string(TokenFormat format) noexcept;

/// A file of token ids, by mmap, in one of the formats that people have:
///   llm.c    1024 bytes of header (256 x i32: 20240520, 1, count for 16-bit tokens; 20240801, 7, count for 32-bit ones), then the tokens
///   Megatron tokens of 8, 16 or 32 bits without a header, when an .idx of the same name lies beside the .bin (see MegatronIndex)
///   nanoGPT  16-bit tokens, no header (any other file that opens with none of llm.c's numbers)
/// All little-endian. Offsets are 64-bit throughout (llm.c's own reader goes wrong beyond 2 GiB).
class TokenFile {
 public:
  /// Checks magic, version, count and the exact size, and samples the tokens against `vocabulary`.
  /// Errors: Error(data), each naming the path.
  TokenFile(const std::filesystem::path& path, std::int64_t vocabulary);

  [[nodiscard]] TokenFormat format() const noexcept { return format_; }
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }  // tokens

  /// The .idx of a Megatron file; null for other formats.
  [[nodiscard]] const MegatronIndex* index() const noexcept { return index_ ? &*index_ : nullptr; }

  /// The tokens [first, first + tokens.size()), each checked against the vocabulary. Errors: Error(data) naming the first bad token.
  void read(std::int64_t first, std::span<std::int32_t> tokens) const;

  /// The index of the first token equal to `token` in [first, last), or last.
  [[nodiscard]] std::int64_t find(std::int32_t token, std::int64_t first, std::int64_t last) const noexcept;

  /// The index of the first token in [first, last) that ends a sequence of a Megatron file, or last.
  [[nodiscard]] std::int64_t find_sequence_end(std::int64_t first, std::int64_t last) const noexcept;

 private:
  [[nodiscard]] std::uint32_t token(std::int64_t index) const noexcept;
  void open_llmc(std::int32_t version, std::int32_t count);
  void open_nanogpt();
  void open_headed(const std::filesystem::path& path);

  std::filesystem::path path_;
  MappedFile file_;
  std::int64_t vocabulary_;
  TokenFormat format_ = TokenFormat::nanogpt_u16;
  int width_ = 2;  // bytes of a token
  std::int64_t count_ = 0;
  std::optional<MegatronIndex> index_;
  const std::byte* tokens_ = nullptr;
};

}  // namespace millrace::runtime
