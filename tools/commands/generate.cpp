// millrace generate: a trained model continues a prompt.

#include "actors/jobs/generation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "layers/models/model.hpp"
#include "runtime/data/tokenizers/streamed_text.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/chat_prompt.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/model_tokenizer.hpp"
#include "tools/commands/terminal.hpp"
#include "tools/commands/trained_model.hpp"

namespace millrace::tools {

namespace {

constexpr const char* generate_component = "millrace generate";
constexpr std::uint64_t longest_prompt = std::uint64_t{64} << 20;  // bytes

/// The generation that the command line describes; every process parses the same one.
struct GenerationRequest {
  TrainedModel model;
  NamedTokenizer tokens;
  actors::ForwardJob job;
  actors::GenerationSettings settings;
  std::string stop;
  std::vector<std::int32_t> ends;  // the tokens that end the text
  std::string chat;                // where the chat template is from, with --chat
  std::vector<std::string> notes;
};

/// The text of --prompt or --prompt-file; empty if neither is given, as a chat allows that has a file of messages.
std::string prompt_of(const Arguments& arguments) {
  const bool has_text = arguments.given("prompt"), has_file = arguments.given("prompt-file");
  const bool may_lack = arguments.given("chat") && arguments.given("messages");
  MILLRACE_CHECK(!has_text || !has_file, ExitCode::usage, generate_component,
                 "--prompt and --prompt-file are both given, expected one of them");
  MILLRACE_CHECK(has_text || has_file || may_lack, ExitCode::usage, generate_component,
                 "neither --prompt nor --prompt-file is given, expected one of them{}", arguments.given("chat") ? ", or --messages" : "");
  if (has_text) {
    const auto prompt = arguments.text("prompt");
    MILLRACE_CHECK(!prompt.empty(), ExitCode::usage, generate_component, "--prompt is empty, expected text to continue");
    return prompt;
  }
  if (!has_file) return {};
  const auto path = arguments.text("prompt-file");
  auto prompt = runtime::read_text_file(path, longest_prompt, ExitCode::data);
  MILLRACE_CHECK(!prompt.empty(), ExitCode::data, generate_component, "{} is empty, expected text to continue", path);
  return prompt;
}

void check_ids(const NamedTokenizer& tokens, const std::vector<std::int32_t>& ids, std::int64_t vocabulary) {
  MILLRACE_CHECK(!ids.empty(), ExitCode::data, generate_component, "{} gives no tokens for the prompt, expected one or more", tokens.name);
  for (const auto id : ids)
    MILLRACE_CHECK(id >= 0 && id < vocabulary, ExitCode::data, generate_component,
                   "the prompt has token {} of the tokenizer {} ({} ids), the model's vocabulary has {}; is it this model's tokenizer?", id,
                   tokens.name, tokens.tokenizer->vocabulary(), vocabulary);
}

/// Sets the prompt, and the tokens that end the text.
void set_prompt(const Arguments& arguments, const std::string& prompt, GenerationRequest& request) {
  const auto& tokenizer = *request.tokens.tokenizer;
  auto& ids = request.settings.prompt;
  if (arguments.given("chat")) {
    auto chat = chat_prompt(request.tokens, arguments, prompt, generate_component);
    ids = std::move(chat.ids);
    request.ends = std::move(chat.ends);
    request.chat = chat.source;
    request.notes = std::move(chat.warnings);
  } else {
    for (const char* option : {"system", "messages"})
      MILLRACE_CHECK(!arguments.given(option), ExitCode::usage, generate_component, "--{} without --chat", option);
    if (const auto begin = tokenizer.begin_of_document()) ids.push_back(*begin);
    tokenizer.encode(prompt, ids);
    if (const auto end = tokenizer.end_of_document()) request.ends.push_back(*end);
  }
  check_ids(request.tokens, ids, request.model.model.vocab_size);
}

/// The number of tokens that fit after the prompt. The last generated token is never an input.
std::int64_t fitting(GenerationRequest& request, std::int64_t requested) {
  const auto prompt = static_cast<std::int64_t>(request.settings.prompt.size());
  const auto& model = request.model.model;
  if (const auto longest = layers::longest_row(model)) {
    MILLRACE_CHECK(prompt <= *longest, ExitCode::usage, generate_component, "a prompt of {}, the model has learned {}: expected at most {}",
                   counted(prompt, "token"), counted(*longest, "position"), *longest);
    const auto most = *longest - prompt + 1;
    if (requested > most)
      request.notes.push_back(fmt::format("--tokens {} after a prompt of {}, the model has learned {}: {} at most", requested, prompt,
                                          counted(*longest, "position"), counted(most, "token")));
    return std::min(requested, most);
  }
  if (prompt + requested - 1 > model.max_position_embeddings)
    request.notes.push_back(
        fmt::format("{} prompt and {} new tokens, the model's context length is {}", prompt, requested, model.max_position_embeddings));
  return requested;
}

GenerationRequest generation_request(const Arguments& arguments, const actors::Session& session) {
  MILLRACE_CHECK(arguments.positional().empty(), ExitCode::usage, generate_component,
                 "{}: expected options alone (a prompt follows --prompt)", arguments.positional().front());
  GenerationRequest request;
  const auto prompt = prompt_of(arguments);
  request.model = find_model(arguments, generate_component);
  request.tokens = find_tokenizer(request.model, arguments, generate_component);
  auto& settings = request.settings;
  set_prompt(arguments, prompt, request);
  if (!request.tokens.warning.empty()) request.notes.push_back(request.tokens.warning);
  settings.tokens = fitting(request, arguments.integer("tokens", 1, 1 << 24));
  settings.sampling.temperature = arguments.real_or_zero("temperature");
  settings.sampling.top_k = arguments.integer("top-k", 0, 1 << 30);
  settings.sampling.top_p = arguments.real("top-p");
  MILLRACE_CHECK(settings.sampling.top_p <= 1, ExitCode::usage, generate_component,
                 "--top-p {}, expected a probability above 0 and at most 1", settings.sampling.top_p);
  settings.sampling.seed = static_cast<std::uint64_t>(arguments.integer("seed", 0, INT64_MAX));
  request.stop = arguments.text("stop");
  const auto sequence = static_cast<std::int64_t>(settings.prompt.size()) + settings.tokens - 1;
  request.job = job_of(request.model, arguments, session, 1, sequence);
  return request;
}

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  MILLRACE_CHECK(std::ferror(stdout) == 0, ExitCode::storage, generate_component, "the text cannot be written to stdout");
}

/// Writes the text to stdout as it is generated, and everything else to stderr.
void write(actors::Session& session, GenerationRequest& request) {
  auto& settings = request.settings;
  const auto& tokenizer = *request.tokens.tokenizer;
  if (session.leads()) {
    print_warnings(request.model.warnings);
    print_warnings(request.notes);
    fmt::print(stderr, "model     {}\n", describe(request.model, request.job));
    if (!request.chat.empty()) fmt::print(stderr, "chat      by {}\n", request.chat);
    fmt::print(stderr, "prompt    {} of {} ({} of the model's {} ids)\n", counted(settings.prompt.size(), "token"), request.tokens.name,
               std::min(tokenizer.vocabulary(), request.model.model.vocab_size), request.model.model.vocab_size);
  }
  runtime::StreamedText text(tokenizer, settings.prompt, request.stop);
  // A terminal that shows the text needs no other sign of progress.
  ProgressLine progress(session.leads() && watched(session.launch(), STDERR_FILENO) && !watched(session.launch(), STDOUT_FILENO));
  std::int64_t written = 0;
  const char* why = "as many tokens as asked for";
  settings.token = [&](std::int32_t token) {
    ++written;
    if (std::find(request.ends.begin(), request.ends.end(), token) != request.ends.end()) {
      why = token == tokenizer.end_of_document() ? "the end of the document" : "the end of the turn";
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
  GenerationRequest request;
  session.prepare_together([&] { request = generation_request(arguments, session); });
  return run_job(session, request.job, [&] { write(session, request); });
}

}  // namespace

Command generate_command() {
  return {.name = "generate",
          .summary = "Continue a prompt with a trained model. Alone or under mpirun.",
          .options = with_model_options(
              {{.name = "prompt", .value = "TEXT", .help = "The text to continue."},
               {.name = "prompt-file", .value = "FILE", .help = "A file with the text to continue.", .offer = offer_files},
               {.name = "chat", .help = "Answer as a chat: the prompt is a user's message, written by the tokenizer's chat template."},
               {.name = "system", .value = "TEXT", .help = "With --chat: the system message."},
               {.name = "messages",
                .value = "FILE",
                .help = "With --chat: a JSON file with a list of messages (role and content), before that of the prompt; or an object with "
                        "messages, tools and other variables of the template.",
                .offer = offer_files},
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
                .help = "Draw from the smallest set of most probable tokens with this total probability.",
                .fallback = "1"},
               {.name = "seed", .value = "S", .help = "Random seed.", .fallback = "1"}}),
          .run = generate};
}

}  // namespace millrace::tools
