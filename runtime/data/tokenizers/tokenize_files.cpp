#include "runtime/data/tokenizers/tokenize_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "kernels/base/check.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizers/component.hpp"
#include "runtime/data/tokenizers/text_cut.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::runtime {
namespace {

constexpr std::size_t part_bytes = std::size_t{1} << 20;  // bytes of text that are encoded at a time, so that the ids stay in the cache
constexpr int max_line_depth = 64;                        // nesting of JSON

class FileTokenizer {
 public:
  FileTokenizer(const Tokenizer& tokenizer, const TokenizeOptions& options, TokenWriter& writer,
                const std::function<void(const TokenizeProgress&)>& report)
      : tokenizer_(tokenizer), options_(options), writer_(writer), report_(report) {
    MILLRACE_CHECK(!options.begin_of_document || tokenizer.begin_of_document(), ExitCode::data, tokenize_component,
                   "the tokenizer has no token that begins a document");
    MILLRACE_CHECK(!options.end_of_document || tokenizer.end_of_document(), ExitCode::data, tokenize_component,
                   "the tokenizer has no token that ends a document");
  }

  void add(const DataFile& file) {
    const MappedFile mapped(file.path);
    const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
    before_ = progress_.bytes;
    if (file.path.extension() == ".jsonl") {
      add_lines(text, file.path.string());
    } else {
      add_document(text, true);
    }
    report_progress(before_ + text.size());
  }

 private:
  void add_lines(std::string_view text, const std::string& path) {
    std::int64_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      ++number;
      at = std::min(end + 1, text.size());
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string where = path + ":" + std::to_string(number);
      const auto json = parse_json(line, max_line_depth, ExitCode::data, where);
      add_document(JsonReader(json, where, ExitCode::data).member(options_.text_key).text(), false);
      report_progress(before_ + at);
    }
  }

  /// Encodes one document. `is_file`: the document's bytes are the file's bytes, so they count as progress.
  void add_document(std::string_view text, bool is_file) {
    if (text.empty()) return;
    if (options_.begin_of_document) append(*tokenizer_.begin_of_document());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = at + next_cut(text.substr(at), part_bytes);
      ids_.clear();
      const std::string_view part = text.substr(at, end - at);
      at == 0 ? tokenizer_.encode(part, ids_) : tokenizer_.encode_rest(part, ids_);
      writer_.append(ids_);
      at = end;
      if (is_file && at < text.size()) report_progress(before_ + at);
    }
    if (options_.end_of_document) append(*tokenizer_.end_of_document());
    writer_.end_document();
  }

  void append(std::int32_t id) { writer_.append({&id, 1}); }

  void report_progress(std::uint64_t bytes) {
    progress_ = {bytes, writer_.documents(), writer_.tokens()};
    report_(progress_);
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  TokenWriter& writer_;
  const std::function<void(const TokenizeProgress&)>& report_;
  TokenizeProgress progress_;
  std::uint64_t before_ = 0;  // bytes of all earlier files
  std::vector<std::int32_t> ids_;
};

}  // namespace

void tokenize_files(std::span<const DataFile> files, const Tokenizer& tokenizer, const TokenizeOptions& options, TokenWriter& writer,
                    const std::function<void(const TokenizeProgress&)>& report) {
  FileTokenizer tokenizing(tokenizer, options, writer, report);
  for (const DataFile& file : files) tokenizing.add(file);
}

}  // namespace millrace::runtime
