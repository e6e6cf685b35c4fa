#include "actors/jobs/sample_text.hpp"

#include "actors/jobs/run_tokenizer.hpp"
#include "kernels/base/check.hpp"
#include "runtime/data/byte_tokenizer.hpp"

namespace millrace::actors {
namespace {

constexpr const char* sample_component = "actors.sample";

std::unique_ptr<const runtime::Tokenizer> tokenizer_of(const RunSettings& settings) {
  auto found = settings.directory.empty() ? runtime::TokenizerFiles() : runtime::read_tokenizer_files(tokenizer_folder(settings.directory));
  if (found.empty()) found = find_run_tokenizer(settings.data, settings.model_from).files;
  MILLRACE_CHECK(!found.empty(), ExitCode::config, sample_component,
                 "sample.tokens = {}, but the tokenizer of data.tokens = {} is not known, expected its files in a folder beside the token "
                 "file, as `millrace data tokenize` leaves them, in a folder tokenizer/ next to it, or in model.from",
                 settings.sample.tokens, settings.data.tokens.front());
  return runtime::open_tokenizer(runtime::is_byte_vocabulary(found) ? "byte" : found.source);
}

/// Bytes as text; control characters are shown as dots.
std::string bytes_as_text(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const auto token : tokens) {
    if (token == '\n' || token == '\t' || (token >= 32 && token < 127)) {
      text += static_cast<char>(token);
    } else if (token == runtime::ByteTokenizer::end_of_document) {
      text += "\n[end of document]\n";
    } else {
      text += '.';
    }
  }
  return text;
}

}  // namespace

SampleText::SampleText(const RunSettings& settings) {
  if (settings.sample.tokens == 0) return;
  const std::string& text = settings.sample.prompt;
  if (settings.data.tokens.empty()) {
    prompt_ = runtime::ByteTokenizer::encode(text);
    if (prompt_.empty()) prompt_.push_back(runtime::ByteTokenizer::end_of_document);
    return;
  }
  tokenizer_ = tokenizer_of(settings);
  if (const auto begin = tokenizer_->begin_of_document()) prompt_.push_back(*begin);
  tokenizer_->encode(text, prompt_);
  if (const auto end = tokenizer_->end_of_document(); end && prompt_.empty()) prompt_.push_back(*end);
  MILLRACE_CHECK(!prompt_.empty(), ExitCode::config, sample_component,
                 "sample.prompt is empty, expected a text: this tokenizer has no token that begins or ends a document");
  for (const auto token : prompt_)
    MILLRACE_CHECK(token < settings.model.vocab_size, ExitCode::config, sample_component,
                   "sample.prompt has token {} of the tokenizer of data.tokens, the model's vocabulary has {}", token,
                   settings.model.vocab_size);
}

std::string SampleText::text_of(const std::vector<std::int32_t>& tokens) const {
  return tokenizer_ ? tokenizer_->decode(tokens) : bytes_as_text(tokens);
}

}  // namespace millrace::actors
