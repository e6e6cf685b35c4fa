#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "tools/commands/command.hpp"
#include "tools/data/tokenize_data.hpp"

namespace millrace::tools {
namespace {

constexpr const char* who = "millrace data";

runtime::TokenTarget target_of(const std::string& format) {
  if (format == "megatron") return runtime::TokenTarget::megatron;
  if (format == "llmc") return runtime::TokenTarget::llmc;
  fail(ExitCode::usage, who, "--format {}, expected megatron or llmc", format);
}

int tokenize(const std::vector<std::string>& words) {
  const Arguments given(words, {"tokenizer", "out", "format", "suffix", "text-key"}, {"prepend-bod", "no-eod", "overwrite"});
  TokenizeRequest request;
  request.tokenizer = given.text("tokenizer", "");
  request.out = given.text("out", "");
  MILLRACE_CHECK(!request.tokenizer.empty() && !request.out.empty(), ExitCode::usage, who,
                 "tokenize wants --tokenizer PATH and --out PREFIX (Megatron) or --out FILE (--format llmc)");
  request.target = target_of(given.text("format", "megatron"));
  request.overwrite = given.flag("overwrite");
  request.suffixes = given.texts("suffix");
  request.sources = given.positional();
  MILLRACE_CHECK(!request.sources.empty(), ExitCode::usage, who, "tokenize wants files or folders of text");
  request.options.begin_of_document = given.flag("prepend-bod");
  request.options.end_of_document = !given.flag("no-eod");
  request.options.text_key = given.text("text-key", "text");
  return tokenize_data(request);
}

int inspect_file(const std::vector<std::string>& words) {
  const Arguments given(words, {"tokenizer", "tokens"}, {});
  MILLRACE_CHECK(given.positional().size() == 1, ExitCode::usage, who, "inspect wants one token file, {} are given",
                 given.positional().size());
  return inspect_tokens(given.positional().front(), given.text("tokenizer", ""), given.integer("tokens", 64, 1, 1 << 20));
}

}  // namespace

const char* const data_help =
    "\n  tokenize makes a token file of text: one document a file, or a line of .jsonl.\n"
    "    --tokenizer PATH   tokenizer.json, a .model, a .tiktoken, a folder with one of them, or byte\n"
    "    --out PATH         megatron: PATH.bin and PATH.idx; llmc: the file\n"
    "    --format NAME      megatron (default) or llmc\n"
    "    --no-eod           no end-of-document token behind each document\n"
    "    --prepend-bod      a begin-of-document token before each document\n"
    "    --suffix .txt      only files of folders that end so; may be given several times\n"
    "    --text-key KEY     where a line of .jsonl has its text (default: text)\n"
    "    --overwrite        replace files that are there\n"
    "  inspect prints a token file's format, tokens, documents and first ids, with --tokenizer their text;\n"
    "    --tokens N         how many (64)\n";

int data(const std::vector<std::string>& arguments) {
  MILLRACE_CHECK(!arguments.empty(), ExitCode::usage, who, "expected tokenize or inspect");
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (arguments.front() == "tokenize") return tokenize(rest);
  if (arguments.front() == "inspect") return inspect_file(rest);
  fail(ExitCode::usage, who, "unknown word {}, expected tokenize or inspect{}", arguments.front(),
       did_you_mean(arguments.front(), std::vector<std::string>{"tokenize", "inspect"}));
}

}  // namespace millrace::tools
