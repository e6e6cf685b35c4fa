#include "runtime/data/tokenizers/tokenizer_json.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/data/tokenizers/byte_pair_tokenizer.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/tokenizer_json_steps.hpp"
#include "runtime/data/tokenizers/unicode.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

using IdsOfPieces = std::unordered_map<std::string, std::int32_t>;

/// GPT-2 writes each byte as a printable character: printable bytes of Latin-1 stand for themselves, the others are numbered from
/// U+0100 on.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
      const std::uint32_t code = printable ? byte : next++;
      byte_of_[code] = static_cast<int>(byte);
      append_character(code, characters_[byte]);
    }
  }
  [[nodiscard]] const std::string& character(std::size_t byte) const { return characters_[byte]; }

  /// The bytes that a piece is written for, or nothing if one of its characters stands for no byte.
  [[nodiscard]] std::optional<std::string> bytes_of(std::string_view piece) const {
    std::string bytes;
    for (std::size_t at = 0; at < piece.size();) {
      const Character character = character_at(piece, at);
      if (character.length == 0 || character.code >= byte_of_.size() || byte_of_[character.code] < 0) return std::nullopt;
      bytes.push_back(static_cast<char>(static_cast<unsigned char>(byte_of_[character.code])));
      at += character.length;
    }
    return bytes;
  }

 private:
  std::array<std::string, 256> characters_;
  std::array<int, 0x180> byte_of_ = [] {
    std::array<int, 0x180> none{};
    none.fill(-1);
    return none;
  }();
};

class Reader {
 public:
  Reader(const Json& json, const std::string& where)
      : file_(json, where, ExitCode::data), where_(where), model_json_(file_.member("model")), model_(count_merges()) {
    model_.where = where;
  }

  BytePairModel read() {
    file_.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
    over_bytes_ = read_text_steps(file_, model_);
    check_model();
    read_vocabulary();
    read_decoder(file_, over_bytes_, model_);
    read_alphabet();
    read_merges();
    read_added_tokens();
    read_document_borders(file_, special_, model_);
    spell();
    return std::move(model_);
  }

 private:
  /// Checks the model's type first, since only byte-pair models have merges.
  std::size_t count_merges() const {
    const std::string type = model_json_.text("type").value_or("");
    if (!type.empty() && type != "BPE")
      model_json_.member("type").refuse("expected BPE: a tokenizer.model of SentencePiece beside it can be used");
    return model_json_.member("merges").array().size();
  }

  void check_model() const {
    model_json_.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
                      "ignore_merges", "vocab", "merges"});
    if (const auto dropout = model_json_.optional_member("dropout")) dropout->refuse("expected null: dropout is not supported");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto affix = model_json_.optional_member(key);
      if (affix && !affix->text().empty()) affix->refuse("expected null or \"\"");
    }
    const bool fallback = model_json_.boolean("byte_fallback").value_or(false);
    if (!over_bytes_ && (!fallback || !model_.spaces.replace)) {
      model_json_.refuse(
          "expected a pre_tokenizer ByteLevel, or byte_fallback with spaces written as U+2581; a tokenizer.model of SentencePiece "
          "beside it can be used");
    }
  }

  void read_vocabulary() {
    const JsonReader vocabulary = model_json_.member("vocab");
    const auto added = file_.optional_member("added_tokens");
    const std::size_t entries = vocabulary.object().size() + (added ? added->array().size() : 0);
    // Gaps are allowed, since vocabularies are padded, but an id must not be so large that it alone would demand memory.
    max_id_ = static_cast<std::int32_t>(std::min<std::size_t>(2 * entries + 65536, std::size_t{1} << 28));
    for (const auto& [piece, value] : vocabulary.object().items()) {
      const std::int32_t id = id_of(vocabulary, piece, value);
      pieces_.emplace(piece, id);
      give(id, piece, text_of(piece));
    }
  }

  /// The id of a piece. Its place in the file is put into words for an error only: there may be a million pieces.
  std::int32_t id_of(const JsonReader& vocabulary, const std::string& piece, const Json& value) const {
    const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max_id_);
    if (!fits) vocabulary.refuse(piece, fmt::format("expected an integer from 0 to {}", max_id_));
    return static_cast<std::int32_t>(value.get<std::uint64_t>());
  }

  /// The text that a piece of the vocabulary stands for.
  std::string text_of(const std::string& piece) const {
    if (over_bytes_) {
      auto bytes = alphabet_.bytes_of(piece);
      return bytes ? *bytes : piece;
    }
    std::string text;
    for (std::size_t at = 0; at < piece.size();) {
      const bool is_space = std::string_view(piece).substr(at).starts_with(visible_space);
      text += is_space ? ' ' : piece[at];
      at += is_space ? visible_space.size() : 1;
    }
    return text;
  }

  void give(std::int32_t id, const std::string& piece, std::string text) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= model_.texts.size()) {
      model_.texts.resize(at + 1);
      taken_.resize(at + 1);
    }
    MILLRACE_CHECK(!taken_[at], ExitCode::data, tokenize_component, "{}: id {} is assigned twice, the second time to {}", where_, id,
                   shown(piece));
    taken_[at] = true;
    model_.texts[at] = std::move(text);
  }

  /// The ids that merging starts from: one for each byte and, in models over characters, one for each character of the
  /// vocabulary.
  void read_alphabet() {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::string piece = over_bytes_ ? alphabet_.character(byte) : byte_piece(byte);
      const auto found = pieces_.find(piece);
      model_.bytes[byte] = found == pieces_.end() ? no_piece : found->second;
      if (found == pieces_.end()) continue;
      if (!over_bytes_) model_.texts[static_cast<std::size_t>(found->second)] = std::string(1, static_cast<char>(byte));
    }
    const bool whole = model_json_.boolean("ignore_merges").value_or(false);
    model_.spaces.cut_at_words = !whole;
    for (const auto& [piece, id] : pieces_) {
      if (over_bytes_) {
        const auto bytes = whole ? alphabet_.bytes_of(piece) : std::nullopt;
        if (bytes) model_.whole.emplace(*bytes, id);
        continue;
      }
      if (whole) model_.whole.emplace(piece, id);
      const Character first = character_at(piece, 0);
      if (first.length == piece.size() && !piece.empty()) model_.characters.emplace(first.code, id);
      if (has_word_border(piece)) model_.spaces.cut_at_words = false;
    }
    if (!over_bytes_ && model_.characters.empty()) model_json_.member("vocab").refuse("expected some pieces of single characters");
  }

  void read_merges() {
    const JsonReader merges = model_json_.member("merges");
    const std::size_t count = merges.array().size();
    for (std::size_t rank = 0; rank < count; ++rank) {
      const auto [left, right] = merge_at(merges, rank);
      const auto a = pieces_.find(left);
      const auto b = pieces_.find(right);
      const auto merged = pieces_.find(left + right);
      if (a == pieces_.end() || b == pieces_.end() || merged == pieces_.end()) {
        merges.at(rank).refuse(fmt::format("expected two pieces of the vocabulary whose union is one ({} is none)",
                                           shown(a == pieces_.end()   ? left
                                                 : b == pieces_.end() ? right
                                                                      : left + right)));
      }
      if (!model_.pairs.add(a->second, b->second, static_cast<std::int32_t>(rank), merged->second))
        merges.at(rank).refuse("expected each pair once");
    }
  }

  /// A merge is written "a b" or ["a", "b"].
  static std::pair<std::string, std::string> merge_at(const JsonReader& merges, std::size_t rank) {
    const auto& value = merges.array()[rank];
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        merges.at(rank).refuse("expected two pieces and one space");
      return {text.substr(0, space), text.substr(space + 1)};
    }
    const JsonReader pair = merges.at(rank);
    if (pair.array().size() != 2) pair.refuse("expected two pieces");
    return {pair.at(0).text(), pair.at(1).text()};
  }

  void read_added_tokens() {
    const auto tokens = file_.optional_member("added_tokens");
    for (std::size_t i = 0; tokens && i < tokens->array().size(); ++i) read_added_token(tokens->at(i));
    const bool sorted = model_.added.sort();
    MILLRACE_CHECK(model_.added_normalized.sort() && sorted, ExitCode::data, tokenize_component, "{}: an added token appears twice",
                   where_);
  }

  void read_added_token(const JsonReader& token) {
    token.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    const std::int32_t id = static_cast<std::int32_t>(token.member("id").count(static_cast<std::uint64_t>(max_id_)));
    const std::string content = token.member("content").text();
    if (content.empty()) token.member("content").refuse("expected some text");
    const bool special = token.boolean("special").value_or(false);
    const auto piece = pieces_.find(content);
    if (piece == pieces_.end()) {
      give(id, content, "");
    } else if (piece->second != id) {
      token.member("id").refuse(fmt::format("expected {}, which the vocabulary has for {}", piece->second, shown(content)));
    }
    model_.texts[static_cast<std::size_t>(id)] = special ? "" : text_of(content);
    if (special) {
      if (!special_.emplace(content, id).second) token.refuse("expected each special token once");
      model_.special.push_back({content, id, token.boolean("lstrip").value_or(false), token.boolean("rstrip").value_or(false)});
      return;
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (token.boolean(key).value_or(false)) token.member(key).refuse("expected false where the token is not special");
    }
    if (!token.boolean("normalized").value_or(true) || !(model_.nfc || model_.spaces.replace)) return model_.added.add(content, id);
    if (model_.spaces.replace) token.refuse("expected normalized = false where spaces are written as U+2581");
    std::string normalized;
    append_nfc(content, normalized);
    model_.added_normalized.add(normalized, id);
  }

  /// What decoding alone does not tell of a token: the names of special ones, and the pieces of those that are no text.
  void spell() {
    for (const auto& [piece, id] : pieces_)
      if (!is_readable(model_.texts[static_cast<std::size_t>(id)])) model_.spelled[id] = {piece, false};
    for (const auto& [content, id] : special_) {
      std::string text = text_of(content);
      const bool readable = is_readable(text);
      model_.spelled[id] = {readable ? std::move(text) : content, readable};
    }
  }

  static std::string shown(const std::string& piece) {
    return nlohmann::json(piece.substr(0, 100)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  JsonReader file_;
  const std::string& where_;
  JsonReader model_json_;
  BytePairModel model_;
  ByteAlphabet alphabet_;
  IdsOfPieces pieces_;
  std::vector<bool> taken_;
  std::map<std::string, std::int32_t> special_;
  std::int32_t max_id_ = 0;
  bool over_bytes_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(std::string_view text, const std::string& where) {
  constexpr int max_depth = 32;
  const Json json = parse_json(text, max_depth, ExitCode::data, where);
  return make_byte_pair_tokenizer(Reader(json, where).read());
}

}  // namespace millrace::runtime
