#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "runtime/data/mapped_file.hpp"
#include "runtime/data/megatron_index.hpp"

namespace millrace::runtime {

enum class TokenFormat : std::uint8_t { llmc_u16, llmc_u32, nanogpt_u16, megatron };

/// The format's name for messages, such as "llm.c, 16 bits per token".
[[nodiscard]] const char* to_string(TokenFormat format) noexcept;

/// The format of a token file, by its first bytes and whether an .idx lies beside it. Errors: Error(data) if it cannot be read.
[[nodiscard]] TokenFormat token_format(const std::filesystem::path& path);

/// A file of token ids, mapped into memory, in one of three formats:
///   llm.c    1024 bytes of header (256 x i32: 20240520, 1, count for 16-bit tokens; 20240801, 7, count for 32-bit ones), then the tokens
///   Megatron tokens of 8, 16 or 32 bits without a header, if an .idx of the same name lies beside the .bin (see MegatronIndex)
///   nanoGPT  16-bit tokens, no header (any other file that does not begin with one of llm.c's magic numbers)
/// All are little-endian. Offsets are 64-bit throughout (llm.c's own reader fails beyond 2 GiB).
class TokenFile {
 public:
  /// Checks magic, version, count and the exact size, and checks a sample of the tokens against `vocabulary`. Errors:
  /// Error(data), each with the path.
  TokenFile(const std::filesystem::path& path, std::int64_t vocabulary);

  [[nodiscard]] TokenFormat format() const noexcept { return format_; }
  [[nodiscard]] std::int64_t size() const noexcept { return count_; }  // in tokens
  [[nodiscard]] int width() const noexcept { return width_; }          // bytes per token

  /// The .idx of a Megatron file; null for the other formats.
  [[nodiscard]] const MegatronIndex* index() const noexcept { return index_ ? &*index_ : nullptr; }

  /// Copies the tokens [first, first + tokens.size()) and checks each against the vocabulary. Errors: Error(data) for the first
  /// bad token.
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
  int width_ = 2;  // bytes per token
  std::int64_t count_ = 0;
  std::optional<MegatronIndex> index_;
  const std::byte* tokens_ = nullptr;
};

}  // namespace millrace::runtime
