#include "tools/commands/tokenize_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/data/text_files.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/units.hpp"
#include "tools/commands/atomic_folder.hpp"
#include "tools/commands/progress_bar.hpp"

namespace millrace::tools {

int tokenize_data(const TokenizeRequest& request) {
  const auto tokenizer = runtime::open_tokenizer(request.tokenizer);
  const auto files = runtime::list_data_files(request.sources, request.suffixes);
  std::uint64_t total = 0;
  for (const auto& file : files) total += file.size;

  const auto tokenizer_files = runtime::read_tokenizer_files(request.tokenizer);

  std::string out = request.out;
  if (request.target == runtime::TokenTarget::megatron && out.ends_with(".bin")) out.resize(out.size() - 4);  // the prefix
  runtime::make_directories(runtime::parent_path(out));
  runtime::TokenWriter writer(request.target, out, tokenizer->vocabulary());
  for (const std::string& path : writer.paths()) want_overwrite(path, request.overwrite, "millrace data");
  const std::string beside = runtime::tokenizer_beside(writer.paths().front());
  const auto old = runtime::read_tokenizer_files(beside);
  MILLRACE_CHECK(request.overwrite || runtime::kind_of(beside) == runtime::PathKind::missing || old.files == tokenizer_files.files,
                 ExitCode::usage, "millrace data", "{} exists already and has {}; --overwrite replaces it", beside,
                 old.empty()
                     ? "no tokenizer"
                     : fmt::format("another tokenizer (hash {}, expected {})", old.vocabulary_hash(), tokenizer_files.vocabulary_hash()));
  double seconds = 0;
  {
    ProgressBar bar(total);
    runtime::tokenize_files(files, *tokenizer, request.options, writer,
                            [&](const runtime::TokenizeProgress& progress) { bar.show(progress.bytes); });
    seconds = bar.seconds();
  }
  MILLRACE_CHECK(writer.tokens() > 0, ExitCode::data, "millrace data", "{}: {} without text, so there are no tokens to write to {}",
                 fmt::join(request.sources, ", "), counted(files.size(), "file"), fmt::join(writer.paths(), ", "));
  // A token file without its tokenizer is harmless, one beside another tokenizer is not.
  if (old.files != tokenizer_files.files) runtime::remove_tree(beside);
  writer.finish();
  if (old.files != tokenizer_files.files) runtime::write_tokenizer_folder(beside, tokenizer_files);
  fmt::print("{}: {} of {} bits in {}, from {} in {} in {} ({:.1f} MB/s)\n", fmt::join(writer.paths(), ", "),
             counted(writer.tokens(), "token"), 8 * writer.width(), counted(writer.documents(), "document"), runtime::bytes_text(total),
             counted(files.size(), "file"), runtime::duration_text(seconds),
             seconds > 0 ? static_cast<double>(total) / seconds / 1e6 : 0.0);
  fmt::print("ids are below {}: model.vocab_size = {} or more\n", tokenizer->vocabulary(), tokenizer->vocabulary());
  fmt::print("tokenizer  {} (hash {}), from which runs with this data copy it\n", beside, tokenizer_files.vocabulary_hash());
  if (request.options.end_of_document) fmt::print("documents end with token {}\n", *tokenizer->end_of_document());
  return 0;
}

}  // namespace millrace::tools
