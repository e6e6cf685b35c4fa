#include "tools/commands/model_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "actors/jobs/run_tokenizer.hpp"
#include "kernels/base/check.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::tools {
namespace {

/// Whether the vocabulary's size suggests bytes, where nothing records it.
bool suggests_bytes(const TrainedModel& model) {
  // Tables are padded to round numbers at most: 512 ids have no other use for the 255 beyond the bytes.
  return model.run.empty() && model.model.vocab_size >= runtime::ByteTokenizer::vocabulary && model.model.vocab_size <= 512;
}

runtime::TokenizerFiles files_of(const TrainedModel& model) {
  if (!model.run.empty()) return tokenizer_of_run(model);
  auto files = model.folder.empty() ? runtime::TokenizerFiles{} : runtime::read_tokenizer_files(model.folder);
  return files.empty() && suggests_bytes(model) ? runtime::byte_tokenizer_files() : files;
}

/// Why the tokenizer that was named may not be the one of the model; empty if nothing speaks against it.
std::string doubt_of(const NamedTokenizer& named, const TrainedModel& model) {
  const auto own = files_of(model);
  const bool alike = !own.empty() && !named.files.empty() && own.vocabulary_file() == named.files.vocabulary_file();
  if (alike && own.vocabulary_hash() == named.files.vocabulary_hash()) return "";
  if (alike)
    return fmt::format("--tokenizer {} is another than the model's own, {} of {}: the same ids mean other texts", named.name,
                       own.vocabulary_file(), own.source);
  // Tables of models are padded, but not to twice the size.
  const auto ids = named.tokenizer->vocabulary(), vocabulary = model.model.vocab_size;
  if (ids <= vocabulary && vocabulary < 2 * ids) return "";
  return fmt::format("--tokenizer {} has {} ids, the model's vocabulary {}: is it this model's tokenizer?", named.name, ids, vocabulary);
}

}  // namespace

runtime::TokenizerFiles tokenizer_of_run(const TrainedModel& model) {
  if (model.run.empty()) return {};
  auto kept = runtime::read_tokenizer_files(actors::tokenizer_folder(model.run));
  if (!kept.empty()) return kept;
  const auto run = configuration_of_run(model);
  if (!run.data.text.empty()) return runtime::byte_tokenizer_files();
  try {
    return actors::find_run_tokenizer(run.data, run.model_from).files;
  } catch (const Error&) {
    return {};  // the data need not be on this machine
  }
}

NamedTokenizer find_tokenizer(const TrainedModel& model, const Arguments& arguments, const char* component) {
  NamedTokenizer found;
  const std::string path = arguments.text("tokenizer");
  MILLRACE_CHECK(!path.empty() || !arguments.given("tokenizer"), ExitCode::usage, component,
                 "--tokenizer is empty, expected a path or byte");
  found.files = path.empty() ? files_of(model) : runtime::read_tokenizer_files(path);
  MILLRACE_CHECK(
      !path.empty() || !found.files.empty(), ExitCode::usage, component,
      "the tokenizer of {} is not known: {}; name it with --tokenizer PATH", model.path(),
      model.run.empty()
          ? fmt::format("it has no tokenizer.json, tokenizer.model or .tiktoken, and {} ids are not those of "
                        "bytes (257 to 512)",
                        model.model.vocab_size)
          : fmt::format("{} was trained on token files without a tokenizer beside them, and has no folder tokenizer", model.run));
  found.bytes = runtime::is_byte_vocabulary(found.files);
  found.name = found.bytes ? "byte" : path.empty() ? found.files.source : path;
  found.tokenizer = runtime::open_tokenizer(found.name);
  if (!path.empty()) found.warning = doubt_of(found, model);
  return found;
}

std::string doubt_of_token_files(const TrainedModel& model, const runtime::DataConfig& data) {
  const auto own = files_of(model);
  const char* key = data.validation.empty() ? "data.tokens" : "data.validation";  // which is then all that is read
  runtime::TokenizerFiles beside;
  try {
    beside = actors::find_run_tokenizer({.suffixes = data.suffixes, .tokens = data.validation.empty() ? data.tokens : data.validation}, "")
                 .files;
  } catch (const Error&) {
    return "";  // files that cannot be read are refused where they are opened
  }
  if (own.empty() || beside.empty() || own.vocabulary_hash() == beside.vocabulary_hash()) return "";
  return fmt::format(
      "{} was made by {} (hash {}), the model's own tokenizer is {} (hash {}): the same ids mean other texts, so that the loss "
      "says nothing",
      key, beside.source, beside.vocabulary_hash(), own.source, own.vocabulary_hash());
}

}  // namespace millrace::tools
