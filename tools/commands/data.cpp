#include <algorithm>
#include <filesystem>
#include <system_error>

#include "configs/presets.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/megatron_index.hpp"
#include "runtime/data/run_files.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/tokenize_data.hpp"

namespace millrace::tools {
namespace {

constexpr const char* data_component = "millrace data";

int tokenize(const Arguments& given) {
  TokenizeRequest request;
  request.tokenizer = given.text("tokenizer");
  request.out = given.text("out");
  MILLRACE_CHECK(!request.tokenizer.empty() && !request.out.empty(), ExitCode::usage, data_component,
                 "tokenize without --{}, expected --tokenizer PATH and --out PREFIX (Megatron) or --out FILE (--format llmc)",
                 request.tokenizer.empty() ? "tokenizer" : "out");
  MILLRACE_CHECK(!request.out.ends_with('/'), ExitCode::usage, data_component,
                 "--out {}: a folder, expected a name in it, such as {}tokens", request.out, request.out);
  request.target = given.text("format") == "llmc" ? runtime::TokenTarget::llmc : runtime::TokenTarget::megatron;
  request.overwrite = given.given("overwrite");
  request.suffixes = given.texts("suffix");
  request.sources = given.positional();
  MILLRACE_CHECK(!request.sources.empty(), ExitCode::usage, data_component, "tokenize without names, expected files or folders of text");
  request.options.begin_of_document = given.given("prepend-bod");
  request.options.end_of_document = !given.given("no-eod");
  request.options.text_key = given.text("text-key");
  return tokenize_data(request);
}

int compress_tokens(const Arguments& given) {
  const std::string tokenizer = given.text("tokenizer"), out = given.text("out");
  MILLRACE_CHECK(!tokenizer.empty(), ExitCode::usage, data_component, "compress without --tokenizer, expected --tokenizer PATH");
  return compress_vocabulary(tokenizer, out);
}

bool is_token_file(const runtime::DataFile& file) { return file.path.extension() == ".bin"; }

bool has_token_files(const std::string& folder) {
  const auto files = runtime::list_data_files(std::vector{folder});
  return std::ranges::any_of(files, is_token_file);
}

/// Says which files of a folder of token files are none.
void print_passed_over(const std::string& folder) {
  auto files = runtime::list_data_files(std::vector{folder});
  std::erase_if(files, [](const runtime::DataFile& file) { return is_token_file(file) || file.path.extension() == ".idx"; });
  if (files.empty()) return;
  fmt::print("passed over {} without .bin at the end, such as {}; data.text={} reads all as text\n", counted(files.size(), "file"),
             files.front().path.string(), folder);
}

/// Whether a word names an installed run, such as quickstart, and nothing in this folder.
bool is_installed_run(const std::string& word) {
  if (word.find('/') != std::string::npos || runtime::kind_of(word) != runtime::PathKind::missing) return false;
  const auto names = configs::preset_names(configs::find_configs_folder() / "runs");
  return std::ranges::find(names, word) != names.end();
}

/// Whether a path is a file of text, not of tokens.
bool is_text_file(const std::string& path) {
  if (runtime::kind_of(path) != runtime::PathKind::file || !runtime::megatron_index_beside(path).empty()) return false;
  return runtime::reads_as_text(runtime::MappedFile(path).bytes());
}

/// A run description, a folder of token files or of text, or one file of tokens or of text.
int inspect(const Arguments& given) {
  const auto& words = given.positional();
  MILLRACE_CHECK(!words.empty(), ExitCode::usage, data_component,
                 "inspect without a name, expected a file or folder of tokens or text, or RUN.toml");
  const auto describes = [](const std::string& word) {
    return word.ends_with(".toml") || word.find('=') != std::string::npos || is_installed_run(word);
  };
  if (std::ranges::any_of(words, describes)) {
    const auto run = load_run(words, Needs::nothing);
    print_warnings(run);
    return inspect_data(run.config.data, run.config.model.vocab_size);
  }
  MILLRACE_CHECK(words.size() == 1, ExitCode::usage, data_component, "inspect with {}, expected one file or folder of tokens or text",
                 counted(words.size(), "name"));
  if (is_text_file(words.front()) && !given.given("tokenizer")) {
    const auto warning = runtime::doubt_of_text(words, {});
    if (!warning.empty()) print_warnings(std::vector{warning});
    return inspect_data({.text = {words.front()}}, 0);
  }
  std::error_code error;
  if (std::filesystem::is_directory(words.front(), error)) {
    if (!has_token_files(words.front())) return inspect_data({.text = {words.front()}}, 0);
    runtime::DataConfig data{.tokens = {words.front()}};
    data.validation = runtime::find_validation(data).files;
    if (!data.validation.empty()) data.held_out = 0;
    const int code = inspect_data(data, 0);
    print_passed_over(words.front());
    return code;
  }
  return inspect_tokens(given.positional().front(), given.text("tokenizer"), given.integer("tokens", 1, 1 << 20));
}

}  // namespace

Command data_command() {
  const Option tokenizer{.name = "tokenizer",
                         .value = "PATH",
                         .help = "tokenizer.json, a .model or .tiktoken file, a folder with one of them, or byte.",
                         .offer = offer_files | offer_folders};
  return {
      .name = "data",
      .summary = "Make token files from text, print the content of one, or compress a vocabulary.",
      .parts = {{.name = "tokenize",
                 .words = "FILES|FOLDERS …",
                 .summary = "Make a token file from text: each file is a document, or each line of .jsonl.",
                 .options = {tokenizer,
                             {.name = "out",
                              .value = "PATH",
                              .help = "Where to write: PATH.bin and PATH.idx for megatron, also if PATH ends with .bin; the file PATH for "
                                      "llmc. Its folder is made.",
                              .offer = offer_files},
                             {.name = "format",
                              .value = "FORMAT",
                              .help = "Format of the token file.",
                              .fallback = "megatron",
                              .choices = {"megatron", "llmc"}},
                             {.name = "no-eod", .help = "Write no end-of-document token after each document."},
                             {.name = "prepend-bod", .help = "Write a begin-of-document token before each document."},
                             {.name = "suffix",
                              .value = "SUFFIX",
                              .help = "From folders, read only files with this suffix, such as .txt. May be given several times."},
                             {.name = "text-key", .value = "KEY", .help = "Key of the text in a line of .jsonl.", .fallback = "text"},
                             {.name = "overwrite", .help = "Replace existing files."}},
                 .offer = offer_files | offer_folders,
                 .run = tokenize},
                {.name = "compress",
                 .words = "",
                 .summary = "Print how many ids a tokenizer's vocabulary has when tokens that read alike are one, for models with n-gram "
                            "memories (Engram).",
                 .options = {tokenizer,
                             {.name = "out",
                              .value = "FILE",
                              .help = "Also write the table of all tokens to this .safetensors file, for data.token_compression.",
                              .offer = offer_files}},
                 .offer = 0,
                 .run = compress_tokens},
                {.name = "inspect",
                 .words = "FILE | FOLDER | RUN.toml [data.…=… …]",
                 .summary = "Print a token file's format, tokens, documents and first ids, with --tokenizer their text; or the files of a "
                            "folder, or of each source of a run, and what is held out.",
                 .options = {tokenizer, {.name = "tokens", .value = "N", .help = "Ids to print.", .fallback = "64"}},
                 .offer = offer_run | offer_folders,
                 .run = inspect}}};
}

}  // namespace millrace::tools
