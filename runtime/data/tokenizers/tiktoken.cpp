#include "runtime/data/tokenizers/tiktoken.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"
#include "runtime/data/tokenizers/component.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t max_piece_bytes = 512;  // bytes; published files have at most 128
constexpr std::size_t max_pieces = std::size_t{1} << 22;

/// The known facts about a published file. Ids are relative to the number of pieces.
struct Family {
  std::array<const char*, 2> names;
  std::size_t pieces;
  SplitPattern pattern;
  bool nfc;
  int begin;  // -1: none
  int end;
  int extra;  // number of ids after the pieces
};
constexpr std::array families = {
    Family{{"o200k", "o200k"}, 199998, SplitPattern::o200k, false, -1, 1, 21},
    Family{{"cl100k", "cl100k"}, 100256, SplitPattern::cl100k, false, -1, 1, 21},
    Family{{"llama3", "llama-3"}, 128000, SplitPattern::llama3, false, 0, 1, 256},
    Family{{"qwen", "qwen"}, 151643, SplitPattern::qwen2, true, -1, 0, 208},
    Family{{"p50k", "p50k"}, 50280, SplitPattern::gpt2, false, -1, -24, 1},  // its end-of-document token lies among its pieces
    Family{{"r50k", "gpt2"}, 50256, SplitPattern::gpt2, false, -1, 0, 1},
};

const Family& family_of(const std::string& name, std::size_t pieces, const std::string& where) {
  std::string small = name;
  std::transform(small.begin(), small.end(), small.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter; });
  for (const Family& family : families) {
    for (const char* known : family.names) {
      if (small.find(known) != std::string::npos) return family;
    }
  }
  for (const Family& family : families) {
    if (family.pieces == pieces) return family;
  }
  fail(ExitCode::data, tokenize_component,
       "{}: a file of this name with {} pieces has no known split pattern; expected o200k, cl100k, llama3, qwen, p50k or r50k in the "
       "name",
       where, pieces);
}

/// Returns nothing if the text is not base64. Our own, since OpenSSL's decoder reads beyond what base64 allows and Boost's is no public
/// header.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const auto value_of = [](char letter) -> int {
    if (letter >= 'A' && letter <= 'Z') return letter - 'A';
    if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9') return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
  };
  std::size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
  std::string bytes;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int value = i + padding < text.size() ? value_of(text[i]) : 0;
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(static_cast<unsigned char>(bits >> shift & 0xff)));
    bits = 0;
  }
  bytes.erase(bytes.size() - padding);
  return bytes;
}

struct Line {
  std::string piece;
  std::int32_t rank;
};

/// Returns nothing if the line is malformed.
std::optional<Line> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space > max_piece_bytes * 2) return std::nullopt;
  auto piece = from_base64(line.substr(0, space));
  const std::string_view digits = line.substr(space + 1);
  std::int32_t rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (!piece || piece->empty() || piece->size() > max_piece_bytes || error != std::errc() || end != digits.data() + digits.size() ||
      rank < 0) {
    return std::nullopt;
  }
  return Line{std::move(*piece), rank};
}

std::string_view next_line(std::string_view text, std::size_t& at) {
  const std::size_t end = std::min(text.find('\n', at), text.size());
  std::string_view line = text.substr(at, end - at);
  at = end + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Reads the pieces, indexed by id.
std::vector<std::string> read_pieces(std::string_view text, const std::string& where) {
  std::vector<Line> lines;
  std::int64_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view shown = next_line(text, at);
    ++number;
    if (shown.empty()) continue;
    auto line = parse_line(shown);
    MILLRACE_CHECK(line.has_value(), ExitCode::data, tokenize_component, "{}:{}: expected base64 of 1 to {} bytes, a space and a rank",
                   where, number, max_piece_bytes);
    MILLRACE_CHECK(lines.size() < max_pieces, ExitCode::data, tokenize_component, "{}: more than {} pieces", where, max_pieces);
    lines.push_back(std::move(*line));
  }
  std::vector<std::string> pieces(lines.size() + 1);  // one rank may be reserved for a special token (p50k)
  for (Line& line : lines) {
    const auto rank = static_cast<std::size_t>(line.rank);
    MILLRACE_CHECK(rank < pieces.size(), ExitCode::data, tokenize_component, "{}: rank {} in a file of {} pieces", where, rank,
                   lines.size());
    MILLRACE_CHECK(pieces[rank].empty(), ExitCode::data, tokenize_component, "{}: rank {} appears twice", where, rank);
    pieces[rank] = std::move(line.piece);
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

using PieceIds = std::unordered_map<std::string_view, std::int32_t>;

/// Each way to join two pieces into a third is a merge with the rank of the result: tiktoken merges adjacent pieces by the rank
/// of their union.
BytePairModel make_model(const std::vector<std::string>& pieces, const std::string& where) {
  PieceIds ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty()) continue;
    MILLRACE_CHECK(ids.emplace(pieces[id], static_cast<std::int32_t>(id)).second, ExitCode::data, tokenize_component,
                   "{}: the piece of rank {} appears twice", where, id);
  }
  struct Joined {
    std::int32_t left, right, merged;
  };
  std::vector<Joined> merges;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    const std::string_view piece = pieces[id];
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = ids.find(piece.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(piece.substr(cut));
      if (right != ids.end()) merges.push_back({left->second, right->second, static_cast<std::int32_t>(id)});
    }
  }
  BytePairModel model(merges.size());
  for (const Joined& merge : merges) static_cast<void>(model.pairs.add(merge.left, merge.right, merge.merged, merge.merged));
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char one = static_cast<char>(static_cast<unsigned char>(byte));
    const auto found = ids.find(std::string_view(&one, 1));
    MILLRACE_CHECK(found != ids.end(), ExitCode::data, tokenize_component, "{}: the byte 0x{:02x} has no piece; expected all 256", where,
                   byte);
    model.bytes[byte] = found->second;
  }
  for (const auto& [piece, id] : ids) model.whole.emplace(piece, id);
  return model;
}

}  // namespace

bool is_tiktoken(std::string_view text) noexcept {
  std::size_t at = 0;
  text = text.substr(0, 2 * max_piece_bytes);
  return parse_line(next_line(text, at)).has_value();
}

std::unique_ptr<Tokenizer> read_tiktoken(std::string_view text, const std::string& name, const std::string& where) {
  std::vector<std::string> pieces = read_pieces(text, where);
  const auto count =
      static_cast<std::size_t>(std::count_if(pieces.begin(), pieces.end(), [](const std::string& piece) { return !piece.empty(); }));
  const Family& family = family_of(name, count, where);
  const auto id_of = [&](int offset) { return static_cast<std::int32_t>(static_cast<std::int64_t>(count) + offset); };
  for (std::size_t rank = 0; rank < count; ++rank) {
    MILLRACE_CHECK(!pieces[rank].empty() || static_cast<std::int32_t>(rank) == id_of(family.end), ExitCode::data, tokenize_component,
                   "{}: rank {} has no piece, but later ranks have", where, rank);
  }
  BytePairModel model = make_model(pieces, where);
  model.where = where;
  model.nfc = family.nfc;
  model.splitters.push_back(make_splitter(family.pattern));
  if (family.begin >= 0) model.begin_of_document = id_of(family.begin);
  const bool ends = id_of(family.end) >= 0 && (static_cast<std::size_t>(id_of(family.end)) >= pieces.size() ||
                                               pieces[static_cast<std::size_t>(id_of(family.end))].empty());
  if (ends) model.end_of_document = id_of(family.end);
  model.texts = std::move(pieces);
  model.texts.resize(count + static_cast<std::size_t>(family.extra));
  return make_byte_pair_tokenizer(std::move(model));
}

}  // namespace millrace::runtime
