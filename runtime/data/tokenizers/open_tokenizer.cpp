#include <algorithm>
#include <system_error>

#include "kernels/base/check.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/tokenizers/sentence_piece.hpp"
#include "runtime/data/tokenizers/tiktoken.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_json.hpp"
#include "runtime/data/tokenizers/utf8.hpp"
#include "runtime/data/tokenizers/vocabulary_and_merges.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::runtime {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_file_bytes = std::uint64_t{256} << 20;  // bytes; published files have at most 35 MB

class ByteVocabulary final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids) ByteTokenizer::decode(id, text);
    return text;
  }
  [[nodiscard]] std::int64_t vocabulary() const noexcept override { return ByteTokenizer::vocabulary; }
  [[nodiscard]] std::optional<std::int32_t> begin_of_document() const noexcept override { return std::nullopt; }
  [[nodiscard]] std::optional<std::int32_t> end_of_document() const noexcept override { return +ByteTokenizer::end_of_document; }
  /// The only token that is no byte.
  [[nodiscard]] std::optional<std::int32_t> padding() const noexcept override { return end_of_document(); }
};

/// The file in a folder that the tokenizer is read from.
fs::path file_in(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  }
  std::vector<fs::path> found;
  for (const std::string& name : list_directory(folder.string())) {
    if (name.ends_with(".tiktoken")) found.push_back(folder / name);
  }
  MILLRACE_CHECK(found.size() == 1, ExitCode::data, "tokenize", "{}: {}; expected tokenizer.json, tokenizer.model or one .tiktoken file",
                 folder.string(), found.empty() ? "no tokenizer found" : "several .tiktoken files");
  return found.front();
}

}  // namespace

Tokenizer::Spelling Tokenizer::spelling(std::int32_t id) const {
  std::string text = decode(std::span(&id, 1));
  if (is_readable(text)) return {std::move(text), true};
  std::string piece;
  for (const char byte : text) piece += byte_piece(static_cast<unsigned char>(byte));
  return {std::move(piece), false};
}

std::unique_ptr<Tokenizer> open_tokenizer(const fs::path& path) {
  if (path == "byte") return std::make_unique<ByteVocabulary>();
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const bool newer = fs::exists(path / "tokenizer.json", error) || fs::exists(path / "tokenizer.model", error);
    if (!newer && has_vocabulary_and_merges(path)) return read_vocabulary_and_merges(path);
    return open_tokenizer(file_in(path));
  }
  if (path.filename() == "vocab.json") return read_vocabulary_and_merges(path.parent_path());
  const std::string where = path.string();
  const std::string name = path.filename().string();
  const std::string bytes = read_text_file(where, max_file_bytes, ExitCode::data);
  if (name.ends_with(".json")) return read_tokenizer_json(bytes, where);
  // Llama 3 ships a .tiktoken file as tokenizer.model.
  if (name.ends_with(".tiktoken") || (name.ends_with(".model") && is_tiktoken(bytes))) return read_tiktoken(bytes, name, where);
  if (name.ends_with(".model")) return read_sentence_piece(bytes, where);
  fail(ExitCode::data, "tokenize", "{}: not a tokenizer by its name; expected \"byte\", a folder, tokenizer.json, .model or .tiktoken",
       where);
}

}  // namespace millrace::runtime
