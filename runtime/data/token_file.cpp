#include "runtime/data/token_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/text_files.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t header_bytes = 1024;
constexpr std::int32_t magic_u16 = 20240520;
constexpr std::int32_t magic_u32 = 20240801;

/// Files that are often mistaken for token files, with their first bytes.
struct Stranger {
  std::string_view opens_with;
  const char* what;
};
constexpr std::array strangers = {
    Stranger{std::string_view("\x93NUMPY", 6), "a NumPy array"},
    Stranger{megatron_magic, "an index of Megatron's IndexedDataset"},
    Stranger{std::string_view("PK\x03\x04", 4), "a zip archive or PyTorch checkpoint"},
    Stranger{std::string_view("\x1f\x8b\x08", 3), "a gzip archive"},
    Stranger{std::string_view("\x28\xb5\x2f\xfd", 4), "a zstd archive"},
};

/// llm.c's other files. Read as 16-bit tokens, their magic numbers would be outside every 16-bit vocabulary in use (55432, 308).
struct OtherMagic {
  std::int32_t magic;
  const char* what;
};
constexpr std::array other_magics = {
    OtherMagic{20240326, "an llm.c model"},          OtherMagic{20240327, "an llm.c debug state"},
    OtherMagic{20240328, "an llm.c tokenizer"},      OtherMagic{20240522, "an llm.c multiple-choice evaluation"},
    OtherMagic{20240527, "an llm.c training state"},
};

void refuse_strangers(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 16));
  for (const Stranger& stranger : strangers) {
    MILLRACE_CHECK(!start.starts_with(stranger.opens_with), ExitCode::data, "data",
                   "{}: {}, not tokens; expected a .bin file of llm.c, nanoGPT or Megatron", path.string(), stranger.what);
  }
  if (bytes.size() < sizeof(std::int32_t)) return;
  const auto magic = load<std::int32_t>(bytes.data());
  for (const OtherMagic& other : other_magics) {
    MILLRACE_CHECK(magic != other.magic, ExitCode::data, "data", "{}: {}, not tokens", path.string(), other.what);
  }
}

}  // namespace

const char* to_string(TokenFormat format) noexcept {
  switch (format) {
    case TokenFormat::llmc_u16:
      return "llm.c, 16 bits per token";
    case TokenFormat::llmc_u32:
      return "llm.c, 32 bits per token";
    case TokenFormat::megatron:
      return "Megatron";
    case TokenFormat::nanogpt_u16:
      return "no header, read as nanoGPT's: 16 bits per token";
  }
  return "?";
}

TokenFormat token_format(const std::filesystem::path& path) {
  if (!megatron_index_beside(path).empty()) return TokenFormat::megatron;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const std::int32_t magic = bytes.size() >= sizeof(std::int32_t) ? load<std::int32_t>(bytes.data()) : 0;
  if (magic == magic_u16) return TokenFormat::llmc_u16;
  return magic == magic_u32 ? TokenFormat::llmc_u32 : TokenFormat::nanogpt_u16;
}

TokenFile::TokenFile(const std::filesystem::path& path, std::int64_t vocabulary) : path_(path), file_(path), vocabulary_(vocabulary) {
  const auto bytes = file_.bytes();
  MILLRACE_CHECK(!bytes.empty(), ExitCode::data, "data", "{}: empty, expected tokens", path.string());
  const auto index = megatron_index_beside(path);
  if (index.empty()) {
    open_headed(path);
  } else {
    index_.emplace(index, bytes.size());
    format_ = TokenFormat::megatron;
    width_ = index_->width();
    count_ = index_->tokens();
    tokens_ = bytes.data();
  }
  // A sample of the tokens detects a wrong vocabulary at the start of a run instead of a day later; every token is checked again
  // when it is read.
  constexpr std::int64_t samples = 1024;
  const std::int64_t stride = std::max<std::int64_t>(count_ / samples, 1);
  // The largest one tells how large the vocabulary has to be at least.
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < count_; i += stride)
    if (token(i) > token(largest)) largest = i;
  std::int32_t checked = 0;
  if (count_ > 0) read(largest, {&checked, 1});
}

void TokenFile::open_headed(const std::filesystem::path& path) {
  const auto bytes = file_.bytes();
  refuse_strangers(path, bytes);
  const std::int32_t magic = bytes.size() >= sizeof(std::int32_t) ? load<std::int32_t>(bytes.data()) : 0;
  if (magic == magic_u16 || magic == magic_u32) {
    MILLRACE_CHECK(bytes.size() >= header_bytes, ExitCode::data, "data", "{}: {}, expected llm.c's header of {} bytes", path.string(),
                   byte_count(bytes.size()), header_bytes);
    format_ = magic == magic_u16 ? TokenFormat::llmc_u16 : TokenFormat::llmc_u32;
    open_llmc(load<std::int32_t>(bytes.data() + 4), load<std::int32_t>(bytes.data() + 8));
  } else {
    open_nanogpt();
  }
}

void TokenFile::open_llmc(std::int32_t version, std::int32_t count) {
  const bool wide = format_ == TokenFormat::llmc_u32;
  const std::int32_t expected_version = wide ? 7 : 1;
  MILLRACE_CHECK(version == expected_version, ExitCode::data, "data", "{}: llm.c token file of version {}, expected {}", path_.string(),
                 version, expected_version);
  MILLRACE_CHECK(count >= 1, ExitCode::data, "data", "{}: llm.c token file with a count of {} tokens, expected 1 or more", path_.string(),
                 count);
  const std::uint64_t expected = header_bytes + static_cast<std::uint64_t>(count) * (wide ? 4 : 2);
  MILLRACE_CHECK(file_.bytes().size() == expected, ExitCode::data, "data", "{}: {}, expected {} for {} ({})", path_.string(),
                 byte_count(file_.bytes().size()), expected, counted(count, "token"),
                 file_.bytes().size() < expected ? "cut off while copying?" : "appended to, or two files in one?");
  count_ = count;
  width_ = wide ? 4 : 2;
  tokens_ = file_.bytes().data() + header_bytes;
}

void TokenFile::open_nanogpt() {
  const std::size_t size = file_.bytes().size();
  const bool text = reads_as_text(file_.bytes());
  const auto advice = fmt::format("`millrace data tokenize` makes token files from text, and data.text={} reads its bytes", path_.string());
  MILLRACE_CHECK(size % 2 == 0, ExitCode::data, "data",
                 "{}: {}, expected an even number (16-bit tokens without a header, as nanoGPT writes){}", path_.string(), byte_count(size),
                 text ? "; it is a text: " + advice : "");
  MILLRACE_CHECK(!text, ExitCode::data, "data", "{}: a text, not tokens; expected a .bin file of llm.c, nanoGPT or Megatron: {}",
                 path_.string(), advice);
  count_ = static_cast<std::int64_t>(size / 2);
  tokens_ = file_.bytes().data();
}

std::uint32_t TokenFile::token(std::int64_t index) const noexcept {
  if (width_ == 2) return load<std::uint16_t>(tokens_ + index * 2);
  if (width_ == 4) return load<std::uint32_t>(tokens_ + index * 4);  // a negative one is outside every vocabulary
  return load<std::uint8_t>(tokens_ + index);
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint32_t value = token(first + static_cast<std::int64_t>(i));
    largest = std::max(largest, value);
    tokens[i] = static_cast<std::int32_t>(value);
  }
  if (largest < vocabulary_) return;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t index = first + static_cast<std::int64_t>(i);
    MILLRACE_CHECK(token(index) < vocabulary_, ExitCode::data, "data",
                   "{}: token {} is {}, the model's vocabulary has {}: expected a file made with its tokenizer", path_.string(), index,
                   token(index), vocabulary_);
  }
}

std::int64_t TokenFile::find(std::int32_t id, std::int64_t first, std::int64_t last) const noexcept {
  if (id < 0) return last;
  while (first < last && token(first) != static_cast<std::uint32_t>(id)) ++first;
  return first;
}

std::int64_t TokenFile::find_sequence_end(std::int64_t first, std::int64_t last) const noexcept {
  return index_ && first < last ? std::min(index_->end_of_sequence(first), last) : last;
}

}  // namespace millrace::runtime
