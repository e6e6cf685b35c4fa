// millrace generate: a trained model writes on behind a prompt.

#include "actors/jobs/generation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "kernels/base/check.hpp"
#include "layers/models/model.hpp"
#include "runtime/data/tokenizers/streamed_text.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/terminal.hpp"
#include "tools/commands/trained_model.hpp"

namespace millrace::tools {

namespace {

constexpr const char* who = "millrace generate";
constexpr std::uint64_t longest_prompt = std::uint64_t{64} << 20;  // bytes

/// What to write, read from words in every process alike.
struct Request {
  TrainedModel model;
  NamedTokenizer tokens;
  actors::ForwardJob job;
  actors::GenerationSettings settings;
  std::string stop;
  std::vector<std::string> notes;
};

std::string prompt_of(const Arguments& arguments) {
  MILLRACE_CHECK(arguments.given("prompt") != arguments.given("prompt-file"), ExitCode::usage, who, "{}, expected one of them",
                 arguments.given("prompt") ? "--prompt and --prompt-file are both given" : "neither --prompt nor --prompt-file is given");
  if (arguments.given("prompt")) {
    const auto prompt = arguments.text("prompt");
    MILLRACE_CHECK(!prompt.empty(), ExitCode::usage, who, "--prompt is empty, expected text to go on behind");
    return prompt;
  }
  const auto path = arguments.text("prompt-file");
  auto prompt = runtime::read_text_file(path, longest_prompt, ExitCode::data);
  MILLRACE_CHECK(!prompt.empty(), ExitCode::data, who, "{} is empty, expected text to go on behind", path);
  return prompt;
}

std::vector<std::int32_t> encode(const NamedTokenizer& tokens, const std::string& prompt, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  if (const auto begin = tokens.tokenizer->begin_of_document()) ids.push_back(*begin);
  tokens.tokenizer->encode(prompt, ids);
  MILLRACE_CHECK(!ids.empty(), ExitCode::data, who, "{} makes no tokens of the prompt, expected one or more", tokens.name);
  for (const auto id : ids)
    MILLRACE_CHECK(id >= 0 && id < vocabulary, ExitCode::data, who,
                   "the prompt has token {} of the tokenizer {} ({} ids), the model's vocabulary has {}; is it this model's tokenizer?", id,
                   tokens.name, tokens.tokenizer->vocabulary(), vocabulary);
  return ids;
}

/// How many tokens fit behind the prompt: the last one written is never read.
std::int64_t fitting(Request& request, std::int64_t wanted) {
  const auto prompt = static_cast<std::int64_t>(request.settings.prompt.size());
  const auto& model = request.model.model;
  if (const auto longest = layers::longest_row(model)) {
    MILLRACE_CHECK(prompt <= *longest, ExitCode::usage, who,
                   "a prompt of {} tokens, the model has learned {} positions: expected at most {}", prompt, *longest, *longest);
    const auto most = *longest - prompt + 1;
    if (wanted > most)
      request.notes.push_back(fmt::format("--tokens {} behind a prompt of {}, the model has learned {} positions: {} tokens at most",
                                          wanted, prompt, *longest, most));
    return std::min(wanted, most);
  }
  if (prompt + wanted - 1 > model.max_position_embeddings)
    request.notes.push_back(
        fmt::format("{} prompt and {} new tokens, the model is meant for rows of {}", prompt, wanted, model.max_position_embeddings));
  return wanted;
}

double temperature_of(const Arguments& arguments) {
  const auto text = arguments.text("temperature");
  const bool zero = text.find_first_not_of("0.") == std::string::npos && text.find('0') != std::string::npos;
  return zero ? 0.0 : arguments.real("temperature");
}

Request read(const Arguments& arguments, const actors::Session& session) {
  MILLRACE_CHECK(arguments.positional().empty(), ExitCode::usage, who, "{}: expected options alone (a prompt goes behind --prompt)",
                 arguments.positional().front());
  Request request;
  const auto prompt = prompt_of(arguments);
  request.model = find_model(arguments, who);
  request.tokens = find_tokenizer(request.model, arguments, who);
  auto& settings = request.settings;
  settings.prompt = encode(request.tokens, prompt, request.model.model.vocab_size);
  settings.tokens = fitting(request, arguments.integer("tokens", 1, 1 << 24));
  settings.sampling.temperature = temperature_of(arguments);
  settings.sampling.top_k = arguments.integer("top-k", 0, 1 << 30);
  settings.sampling.top_p = arguments.real("top-p");
  MILLRACE_CHECK(settings.sampling.top_p <= 1, ExitCode::usage, who, "--top-p {}, expected a share above 0 and at most 1",
                 settings.sampling.top_p);
  settings.sampling.seed = static_cast<std::uint64_t>(arguments.integer("seed", 0, INT64_MAX));
  request.stop = arguments.text("stop");
  const auto sequence = static_cast<std::int64_t>(settings.prompt.size()) + settings.tokens - 1;
  request.job = job_of(request.model, arguments, session, 1, sequence);
  return request;
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  MILLRACE_CHECK(std::ferror(stdout) == 0, ExitCode::storage, who, "the text cannot be written to stdout");
}

/// The text to stdout as it comes; all else to stderr.
void write(actors::Session& session, Request& request) {
  auto& settings = request.settings;
  const auto& tokenizer = *request.tokens.tokenizer;
  if (session.leads()) {
    print_warnings(request.model.warnings);
    print_warnings(request.notes);
    fmt::print(stderr, "model     {}\n", describe(request.model, request.job));
    fmt::print(stderr, "prompt    {} tokens of {} ({} of the model's {} ids)\n", settings.prompt.size(), request.tokens.name,
               std::min(tokenizer.vocabulary(), request.model.model.vocab_size), request.model.model.vocab_size);
  }
  runtime::StreamedText text(tokenizer, settings.prompt, request.stop);
  // On a terminal that shows the text itself, that is progress enough.
  ProgressLine progress(session.leads() && watched(session.launch(), STDERR_FILENO) && !watched(session.launch(), STDOUT_FILENO));
  std::int64_t written = 0;
  const char* why = "as many as expected";
  settings.token = [&](std::int32_t token) {
    ++written;
    if (token == tokenizer.end_of_document()) {
      why = "the end of the document";
      return false;
    }
    if (const auto ready = text.add(token); !ready.empty()) put(ready);
    if (text.stopped()) why = "the stop text";
    progress.show(fmt::format("{} of {} tokens", written, settings.tokens));
    return !text.stopped();
  };
  const auto done = actors::generate(session, request.job, settings);
  if (!session.leads()) return;
  put(text.rest());
  progress.wipe();
  fmt::print(stderr, "\ntokens    {} in {:.2f} s | {:.1f} tokens/s | ends with {}\n", done.tokens, done.seconds,
             static_cast<double>(done.tokens) / std::max(done.seconds, 1e-9), why);
}

int generate(const Arguments& arguments) {
  actors::Session session;
  Request request;
  session.prepare_together([&] { request = read(arguments, session); });
  return run_job(session, request.job, request.model, [&] { write(session, request); });
}

}  // namespace

Command generate_command() {
  return {.name = "generate",
          .summary = "Continue a prompt with a trained model. Alone or under mpirun.",
          .options = with_model_options(
              {{.name = "prompt", .value = "TEXT", .help = "The text to continue."},
               {.name = "prompt-file", .value = "FILE", .help = "A file with the text to continue.", .offer = offer_files},
               {.name = "tokens",
                .value = "N",
                .help = "Write at most this many. The end of the document ends the text too.",
                .fallback = "64"},
               {.name = "stop", .value = "TEXT", .help = "End before this text."},
               {.name = "temperature",
                .value = "T",
                .help = "Divides the logits before a token is drawn; 0 takes the most probable token.",
                .fallback = "0.8"},
               {.name = "top-k", .value = "K", .help = "Draw from the K most probable tokens; 0 draws from all.", .fallback = "0"},
               {.name = "top-p",
                .value = "P",
                .help = "Draw from the fewest most probable tokens that together have this probability.",
                .fallback = "1"},
               {.name = "seed", .value = "S", .help = "Random seed.", .fallback = "1"}}),
          .run = generate};
}

}  // namespace millrace::tools
