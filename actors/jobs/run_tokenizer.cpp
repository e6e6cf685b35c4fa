#include "actors/jobs/run_tokenizer.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/data/run_files.hpp"
#include "runtime/io/file_system.hpp"

namespace millrace::actors {
namespace {

namespace fs = std::filesystem;
using runtime::TokenizerFiles;

/// "gpt2/tokenizer.json (hash 0123…)"
std::string describe(const TokenizerFiles& files) {
  return fmt::format("{} of {} (hash {})", files.vocabulary_file(), files.source, files.vocabulary_hash());
}

/// The folder that may hold the tokenizer of a token file: that beside it, else a folder "tokenizer" in the folder of the file.
std::string folder_for(const fs::path& token_file) {
  const auto beside = runtime::tokenizer_beside(token_file.string());
  return runtime::tokenizer_file_names(beside).empty() ? (token_file.parent_path() / "tokenizer").string() : beside;
}

/// Whether the folder has a vocabulary of another size than `first`. There may be thousands of token files: only vocabularies of another
/// size are read.
bool may_differ(const std::string& folder, const TokenizerFiles& first) {
  std::error_code error;
  const auto size = fs::file_size(fs::path(folder) / first.vocabulary_file(), error);
  return error || size != first.files.at(first.vocabulary_file()).size();
}

/// The tokenizer that the token files name, the first one if there are several.
TokenizerFiles of_token_files(const runtime::DataConfig& data, std::vector<std::string>& warnings) {
  TokenizerFiles first;
  std::string last;  // the folder that was looked at last
  std::vector<runtime::DataFile> files;
  for (const auto& source : runtime::list_run_files(data).sources) files.insert(files.end(), source.files.begin(), source.files.end());
  for (const auto& file : files) {
    const auto folder = folder_for(file.path);
    if (folder == std::exchange(last, folder) || (!first.empty() && !may_differ(folder, first))) continue;
    auto found = runtime::read_tokenizer_files(folder);
    if (found.empty()) continue;
    if (first.empty()) {
      first = std::move(found);
    } else if (found.vocabulary_hash() != first.vocabulary_hash()) {
      warnings.push_back(
          fmt::format("data.tokens: {} was made by {}, but other files by {}: ids of different vocabularies do not mean the same",
                      file.path.string(), describe(found), describe(first)));
      break;
    }
  }
  return first;
}

/// The names of the files that differ or that only one of both has; the vocabulary is the same.
std::string differences(const TokenizerFiles& kept, const TokenizerFiles& found) {
  std::string names;
  for (const auto& [name, text] : found.files) {
    const auto other = kept.files.find(name);
    if (other == kept.files.end() || other->second != text) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

std::string tokenizer_folder(const std::string& run_directory) { return runtime::join_path(run_directory, "tokenizer"); }

RunTokenizer find_run_tokenizer(const runtime::DataConfig& data, const std::string& model_from) {
  RunTokenizer found;
  if (!data.text.empty()) return found;
  if (!data.tokens.empty()) found.files = of_token_files(data, found.warnings);                     // else a program has data of its own
  if (model_from.empty() || runtime::kind_of(model_from) == runtime::PathKind::file) return found;  // llm.c's file has none
  auto models = runtime::read_tokenizer_files(model_from);
  if (models.empty()) return found;
  if (!found.files.empty() && found.files.vocabulary_hash() != models.vocabulary_hash()) {
    found.warnings.push_back(
        fmt::format("data.tokens was made by {}, model.from has {}: is it the model's tokenizer? The run keeps that of the data",
                    describe(found.files), describe(models)));
    return found;
  }
  found.files = std::move(models);  // the same vocabulary, and what the model's folder has beside it
  return found;
}

std::vector<std::string> keep_tokenizer(const std::string& run_directory, const runtime::DataConfig& data, const std::string& model_from) {
  auto found = find_run_tokenizer(data, model_from);
  if (found.files.empty()) return found.warnings;
  const std::string folder = tokenizer_folder(run_directory);
  const auto kept = runtime::read_tokenizer_files(folder);
  if (kept.empty()) {
    runtime::write_tokenizer_folder(folder, found.files);
    return found.warnings;
  }
  MILLRACE_CHECK(
      kept.vocabulary_hash() == found.files.vocabulary_hash(), ExitCode::data, "actors.tokenizer",
      "the run has the tokenizer {}, found was {}: expected the tokenizer with which the run began; remove {} if the new one is right",
      describe(kept), describe(found.files), folder);
  if (const auto names = differences(kept, found.files); !names.empty())
    found.warnings.push_back(
        fmt::format("{} has other files beside the same vocabulary than {} ({}): the run's own stay", folder, found.files.source, names));
  return found.warnings;
}

}  // namespace millrace::actors
