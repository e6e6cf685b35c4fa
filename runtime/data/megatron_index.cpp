#include "runtime/data/megatron_index.hpp"

#include <cstring>
#include <system_error>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t index_header_bytes = 34;  // so the arrays after it are not aligned

template <class T>
T element(const std::byte* array, std::int64_t index) noexcept {
  return load<T>(array + static_cast<std::size_t>(index) * sizeof(T));
}

int width_of(std::uint8_t code) {
  switch (code) {
    case 1:
      return 1;
    case 4:
      return 4;
    case 8:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

MegatronIndex::MegatronIndex(const std::filesystem::path& path, std::uint64_t bin_bytes) : file_(path) {
  check_sizes(path);
  check_sequences(path, bin_bytes);
  check_borders(path);
}

void MegatronIndex::check_sizes(const std::filesystem::path& path) {
  const auto bytes = file_.bytes();
  MILLRACE_CHECK(bytes.size() >= index_header_bytes && std::memcmp(bytes.data(), megatron_magic.data(), megatron_magic.size()) == 0,
                 ExitCode::data, "data", "{}: the .idx beside a .bin is not an index of Megatron's IndexedDataset", path.string());
  const auto version = load<std::uint64_t>(bytes.data() + 9);
  MILLRACE_CHECK(version == 1, ExitCode::data, "data", "{}: an index of version {}, expected 1", path.string(), version);
  const auto code = load<std::uint8_t>(bytes.data() + 17);
  width_ = width_of(code);
  MILLRACE_CHECK(width_ != 0, ExitCode::data, "data", "{}: element code {}, expected 1 (u8), 4 (i32) or 8 (u16)", path.string(), code);
  const auto sequences = load<std::uint64_t>(bytes.data() + 18);
  const auto borders = load<std::uint64_t>(bytes.data() + 26);
  const std::uint64_t size = bytes.size();
  MILLRACE_CHECK(sequences <= size / 12 && borders <= size / 8, ExitCode::data, "data", "{}: {}, too few for {} and {} of documents",
                 path.string(), byte_count(size), counted(sequences, "sequence"), counted(borders, "border"));
  const std::uint64_t expected = index_header_bytes + 12 * sequences + 8 * borders;
  MILLRACE_CHECK(size == expected || size == expected + sequences, ExitCode::data, "data",
                 "{}: {}, expected {} for {} and {} of documents (cut off while copying?)", path.string(), byte_count(size), expected,
                 counted(sequences, "sequence"), counted(borders, "border"));
  sequences_ = static_cast<std::int64_t>(sequences);
  borders_ = static_cast<std::int64_t>(borders);
  lengths_ = bytes.data() + index_header_bytes;
  offsets_ = lengths_ + 4 * sequences;
  documents_ = offsets_ + 8 * sequences;
}

void MegatronIndex::check_sequences(const std::filesystem::path& path, std::uint64_t bin_bytes) {
  for (std::int64_t i = 0; i < sequences_; ++i) {
    const auto length = element<std::int32_t>(lengths_, i);
    MILLRACE_CHECK(length >= 0, ExitCode::data, "data", "{}: sequence {} has {} tokens", path.string(), i, length);
    const auto offset = element<std::int64_t>(offsets_, i);
    MILLRACE_CHECK(offset == tokens_ * width_, ExitCode::data, "data",
                   "{}: sequence {} begins at byte {}, expected {}, where the one before it ends", path.string(), i, offset,
                   tokens_ * width_);
    tokens_ += length;
  }
  MILLRACE_CHECK(static_cast<std::uint64_t>(tokens_) * static_cast<std::uint64_t>(width_) == bin_bytes, ExitCode::data, "data",
                 "{}: {} of {} bytes, but the .bin beside it has {}", path.string(), counted(tokens_, "token"), width_,
                 byte_count(bin_bytes));
}

void MegatronIndex::check_borders(const std::filesystem::path& path) const {
  MILLRACE_CHECK(borders_ >= 1, ExitCode::data, "data", "{}: no document borders, expected 0 and {}", path.string(), sequences_);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < borders_; ++i) {
    const auto border = element<std::int64_t>(documents_, i);
    const bool in_order = i == 0 ? border == 0 : border >= before && border <= sequences_;
    MILLRACE_CHECK(in_order && (i + 1 < borders_ || border == sequences_), ExitCode::data, "data",
                   "{}: border {} of documents is {}, expected 0 … {} in ascending order", path.string(), i, border, sequences_);
    before = border;
  }
}

std::int64_t MegatronIndex::first_token(std::int64_t sequence) const noexcept {
  return sequence == sequences_ ? tokens_ : element<std::int64_t>(offsets_, sequence) / width_;
}

std::int64_t MegatronIndex::end_of_sequence(std::int64_t index) const noexcept {
  // The first sequence that begins after the token. Empty sequences begin where the next one does and need no special case.
  std::int64_t low = 0;
  std::int64_t high = sequences_;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (first_token(middle) > index) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return first_token(low) - 1;
}

std::filesystem::path megatron_index_beside(const std::filesystem::path& bin) {
  if (bin.extension() != ".bin") return {};
  std::filesystem::path index = bin;
  index.replace_extension(".idx");
  std::error_code error;
  return std::filesystem::is_regular_file(index, error) ? index : std::filesystem::path();
}

}  // namespace millrace::runtime
