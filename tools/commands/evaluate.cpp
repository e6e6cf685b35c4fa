// millrace eval: the loss of a trained model on text or token files.

#include "actors/jobs/evaluation.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/jobs/choice_data.hpp"
#include "actors/jobs/data_content.hpp"
#include "actors/jobs/evaluation_data.hpp"
#include "actors/jobs/run_setup.hpp"
#include "actors/telemetry/long_evaluation.hpp"
#include "configs/schema.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/nearest.hpp"
#include "layers/models/model.hpp"
#include "runtime/data/run_files.hpp"
#include "runtime/io/metrics_file.hpp"
#include "runtime/units.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/model_tokenizer.hpp"
#include "tools/commands/terminal.hpp"
#include "tools/commands/trained_model.hpp"

namespace millrace::tools {

namespace {

constexpr const char* evaluate_component = "millrace eval";

/// The evaluation that the command line describes; every process parses the same one.
struct EvaluationRequest {
  TrainedModel model;
  NamedTokenizer tokens;  // for data.text
  actors::ForwardJob job;
  std::unique_ptr<actors::EvaluationData> data;  // from data.text or data.tokens; or
  std::unique_ptr<runtime::ChoiceFile> choices;  // multiple-choice examples
  std::int64_t microbatches = 0;
  bool json = false;
  std::string choices_path;
  std::vector<std::string> notes;  // for the user

  /// Every data file that this process reads.
  [[nodiscard]] std::vector<runtime::DataFile> files() const {
    return choices ? runtime::list_data_files(std::vector{choices_path}) : data->files();
  }
};

bool names_data(const std::string& word) { return word.starts_with("data.text=") || word.starts_with("data.tokens="); }
bool is_validation(const std::string& word) { return word.starts_with("data.validation=") && !word.ends_with('='); }
bool is_share(const std::string& word) { return word.starts_with("data.held_out="); }

/// Data, rows and dtype of the checkpoint's run, overridden by the command line.
configs::RunConfig config_of(const TrainedModel& model, const Arguments& arguments) {
  const auto& words = arguments.positional();
  static constexpr std::array known = {"data.text",     "data.tokens",    "data.weights",  "data.validation",
                                       "data.suffixes", "data.separator", "data.held_out", "data.packing"};
  for (const auto& word : words) {
    const auto key = word.substr(0, word.find('='));
    MILLRACE_CHECK(key != word && std::find(known.begin(), known.end(), key) != known.end(), ExitCode::usage, evaluate_component,
                   "{}: expected options and data.…=… alone{}", word,
                   did_you_mean(key, std::vector<std::string>(known.begin(), known.end())));
  }
  const bool given = std::ranges::any_of(words, names_data);
  // What the command line says of the evaluated part replaces what the run says of it.
  const bool part_given = std::ranges::any_of(words, is_validation) || std::ranges::any_of(words, is_share);
  MILLRACE_CHECK(given || !model.run.empty(), ExitCode::usage, evaluate_component,
                 "neither data.text=… nor data.tokens=… is given, and {} is in no run directory whose files could be taken", model.path());
  configs::LoadRequest request;
  request.complete = false;
  if (model.identity.empty()) {
    const std::int64_t sequence = std::min<std::int64_t>(512, model.model.max_position_embeddings);
    request.overrides = {"train.batch=4", fmt::format("train.sequence={}", sequence)};
    if (model.losses.indexer_loss > 0 && sequence > model.model.index_topk)
      for (const auto& [key, text] : {std::pair{"train.indexer_loss", configs::to_text(model.losses.indexer_loss)},
                                      {"train.indexer_warmup", configs::to_text(model.losses.indexer_warmup)}})
        request.overrides.push_back(fmt::format("{}={}", key, text));
  }
  for (const auto& [key, weight] : {std::pair{"train.z_loss", model.losses.z_loss},
                                    {"train.balance_loss", model.losses.balance_loss},
                                    {"train.mtp_loss", model.losses.mtp_loss}})
    if (weight > 0) request.overrides.push_back(fmt::format("{}={}", key, configs::to_text(weight)));
  for (const auto& [key, value] : model.identity) {
    const bool rows = key == "train.batch" || key == "train.sequence" || key == "train.z_loss" || key == "train.balance_loss" ||
                      key == "train.router_z_loss" || key == "train.mtp_loss" || key == "train.indexer_loss" ||
                      key == "train.indexer_warmup" || key == "data.packing";
    const bool data = key == "data.suffixes" || key == "data.weights" || (key == "data.held_out" && !part_given);
    if (rows || key == "data.separator" || (!given && data)) request.overrides.push_back(fmt::format("{}={}", key, value));
  }
  if (given && !part_given) request.overrides.emplace_back("data.held_out=0");
  request.overrides.insert(request.overrides.end(), words.begin(), words.end());
  for (const auto& [option, key] :
       {std::pair{"sequence", "train.sequence"}, {"batch", "train.batch"}, {"microbatches", "evaluate.batches"}})
    if (arguments.given(option)) {
      const auto* found = configs::find_key(key);
      const auto number = arguments.integer(option, static_cast<long>(found->least), static_cast<long>(found->most));
      request.overrides.push_back(fmt::format("{}={}", key, number));
    }
  auto config = configs::load(request).config;
  if (!given) {
    const auto run = configuration_of_run(model);
    const auto& data = run.data;
    config.evaluate.average = run.evaluate.average;
    config.data.text = data.text;
    config.data.tokens = data.tokens;
    if (!part_given) config.data.validation = data.validation;
    const bool whole = config.data.validation.empty() && actors::held_nothing_out(model.identity);
    MILLRACE_CHECK(
        config.data.evaluates() && !whole, ExitCode::usage, evaluate_component,
        "{}, so there is nothing to evaluate: name files with data.validation=FILES, or with {}FILES to evaluate on all of them",
        std::ranges::any_of(words, is_share) ? "data.held_out=0 holds nothing out" : fmt::format("{} held nothing out", model.run),
        config.data.text.empty() ? "data.tokens=" : "data.text=");
  }
  return config;
}

void read_choices(EvaluationRequest& request, const Arguments& arguments, const actors::Session& session) {
  MILLRACE_CHECK(arguments.positional().empty(), ExitCode::usage, evaluate_component, "{} with --choices, expected one of them",
                 arguments.positional().front());
  for (const char* option : {"sequence", "batch", "microbatches", "tokenizer"})
    MILLRACE_CHECK(!arguments.given(option), ExitCode::usage, evaluate_component, "--{} with --choices, whose file determines the rows",
                   option);
  const auto path = request.choices_path = arguments.text("choices");
  const auto& model = request.model.model;
  request.choices = std::make_unique<runtime::ChoiceFile>(path, model.vocab_size);
  const actors::ChoiceData data(*request.choices);
  const auto longest = layers::longest_row(model);
  MILLRACE_CHECK(!longest || data.sequence() <= *longest, ExitCode::data, evaluate_component,
                 "{}: a context with its completion has {} tokens, the model has learned {} positions", path, data.sequence() + 1,
                 longest.value_or(0));
  request.microbatches = data.evaluation_microbatches();
  request.job = job_of(request.model, arguments, session, 1, data.sequence());
}

EvaluationRequest evaluation_request(const Arguments& arguments, const actors::Session& session) {
  EvaluationRequest request;
  request.model = find_model(arguments, evaluate_component);
  request.json = arguments.given("json");
  if (arguments.given("choices")) {
    read_choices(request, arguments, session);
    return request;
  }
  const auto config = config_of(request.model, arguments);
  const auto vocabulary = request.model.model.vocab_size;
  const bool text = !config.data.text.empty();
  MILLRACE_CHECK(text || !arguments.given("tokenizer"), ExitCode::usage, evaluate_component,
                 "--tokenizer with data.tokens, expected data.text");
  if (text) request.tokens = find_tokenizer(request.model, arguments, evaluate_component);
  if (auto doubt = runtime::doubt_of_text(config.data.text, config.data.suffixes); !doubt.empty())
    request.notes.push_back(std::move(doubt));
  if (!text) request.tokens.warning = doubt_of_token_files(request.model, config.data);
  runtime::BatchShape shape;
  shape.rows = config.train.batch;
  shape.sequence = config.train.sequence;
  shape.packing = config.data.packing;
  shape.modules = actors::mtp_modules(request.model.model);
  if (config.evaluate.average && !arguments.given("average"))
    request.notes.push_back(fmt::format(
        "the last parameters are evaluated, {} evaluates their averages, as --average does (evaluate.average)", request.model.run));
  request.data = std::make_unique<actors::EvaluationData>(config.data, request.tokens.bytes ? nullptr : request.tokens.tokenizer.get(),
                                                          vocabulary, shape);
  request.microbatches = request.data->evaluation_microbatches();
  if (config.evaluate.batches > 0) request.microbatches = std::min(request.microbatches, config.evaluate.batches);
  request.job = job_of(request.model, arguments, session, shape.rows, shape.sequence);
  request.job.request.train.z_loss = config.train.z_loss;
  request.job.request.train.balance_loss = config.train.balance_loss;
  request.job.request.train.router_z_loss = config.train.router_z_loss;
  request.job.request.train.indexer_loss = config.train.indexer_loss;
  request.job.request.train.indexer_warmup = config.train.indexer_warmup;
  request.job.request.train.mtp_loss = config.train.mtp_loss;
  request.job.request.train.mtp_eval_target_module = config.train.mtp_eval_target_module;
  return request;
}

void introduce(const EvaluationRequest& request) {
  const auto& train = request.job.request.train;
  print_warnings(request.model.warnings);
  print_warnings(request.notes);
  if (!request.tokens.warning.empty()) print_warnings(std::vector{request.tokens.warning});
  const bool from_run = !request.model.checkpoint.empty();  // for a folder, its reader has printed this warning already
  if (from_run && train.z_loss > 0)
    print_warnings(std::vector{fmt::format("the loss includes the z-loss ({}), as in the run of the checkpoint", train.z_loss)});
  fmt::print(stderr, "model       {}\n", describe(request.model, request.job));
  if (request.choices) {
    fmt::print(stderr, "data        {} with {} | rows of {}\n", counted(request.choices->examples().size(), "example"),
               counted(request.microbatches, "completion"), counted(train.sequence, "token"));
    return;
  }
  fmt::print(stderr, "data        {} tokens in {}{} | {} of {} x {}\n", runtime::count_text(static_cast<double>(request.data->tokens())),
             request.data->extent(), request.tokens.tokenizer ? ", tokenizer " + request.tokens.name : "",
             counted(request.microbatches, "microbatch"), train.batch, train.sequence);
}

void print_losses(const EvaluationRequest& request, const actors::Evaluated& evaluated) {
  const auto targets = request.data->evaluation_targets(request.microbatches);
  MILLRACE_CHECK(targets > 0, ExitCode::data, evaluate_component, "no token has a next token in its document, so there is no loss");
  const double loss = evaluated.sum() / static_cast<double>(targets), bits = loss / std::log(2.0), perplexity = std::exp(loss);
  runtime::StepCounts counts{.valid_targets = targets,
                             .microbatches = request.microbatches,
                             .mtp_targets = request.data->evaluation_mtp_targets(request.microbatches, 0)};
  if (const auto module = static_cast<int>(request.job.request.train.mtp_eval_target_module); module > 0)
    counts.mtp_eval_targets = request.data->evaluation_mtp_targets(request.microbatches, module);
  const auto terms = runtime::add_loss_terms(evaluated.terms, std::numeric_limits<int>::max(), counts).shown();
  const double rate = static_cast<double>(targets) / std::max(evaluated.seconds, 1e-9);
  std::optional<double> bits_per_byte;
  const auto bytes = request.data->target_bytes();
  if (bytes && *bytes > 0 && request.microbatches == request.data->evaluation_microbatches())
    bits_per_byte = evaluated.sum() / std::log(2.0) / static_cast<double>(*bytes);
  if (request.json) {
    nlohmann::ordered_json json{{"targets", targets},     {"microbatches", request.microbatches},
                                {"loss", loss},           {"loss_hex", runtime::hexadecimal(loss)},
                                {"bits_per_token", bits}, {"perplexity", perplexity}};
    for (const auto& term : terms) json[term.name] = term.value;
    if (bits_per_byte) json["bits_per_byte"] = *bits_per_byte;
    if (bits_per_byte) json["bytes"] = *bytes;
    json["seconds"] = evaluated.seconds;
    json["tokens_per_second"] = rate;
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("tokens      {} predicted, in {:.2f} s, {} tok/s\n", targets, evaluated.seconds, runtime::count_text(rate));
    fmt::print("loss        {:.6f} nats per token ({:.6f} bits)\nperplexity  {:.4f}\n", loss, bits, perplexity);
    for (const auto& term : terms) fmt::print("{:<11} {:.6f}{}\n", term.name, term.value, term.metric() ? " %" : "");
    if (bits_per_byte) fmt::print("per byte    {:.6f} bits, of {} bytes\n", *bits_per_byte, *bytes);
  }
  MILLRACE_CHECK(std::isfinite(loss), ExitCode::numerics, evaluate_component, "the loss is not finite");
}

void print_accuracy(const EvaluationRequest& request, const actors::Evaluated& evaluated) {
  for (const double loss : evaluated.losses)
    MILLRACE_CHECK(std::isfinite(loss), ExitCode::numerics, evaluate_component, "a loss is not finite");
  const auto examples = static_cast<std::int64_t>(request.choices->examples().size());
  const auto right = actors::count_right(*request.choices, evaluated.losses);
  const double accuracy = static_cast<double>(right) / static_cast<double>(examples);
  if (request.json) {
    const nlohmann::ordered_json json{{"examples", examples}, {"right", right}, {"accuracy", accuracy}, {"seconds", evaluated.seconds}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("accuracy    {:.4f}, {} of {} examples right, in {:.2f} s\n", accuracy, right, examples, evaluated.seconds);
  }
}

void measure(actors::Session& session, const EvaluationRequest& request) {
  if (session.leads()) introduce(request);
  const auto files = request.files();
  static_cast<void>(actors::agree_on_content(session, files, runtime::data_fingerprint(files), "", false));
  const bool terminal = watched(session.launch(), STDERR_FILENO);
  ProgressLine line(session.leads() && terminal);
  actors::LongEvaluation shown(terminal);
  shown.begin(request.microbatches, actors::LongEvaluation::Clock::now());
  const auto progress = [&](std::int64_t begun) {
    const auto text = shown.show(begun, actors::LongEvaluation::Clock::now());
    if (!text) return;
    line.show(*text);
    if (!terminal) fmt::print(stderr, "evaluation  {}\n", *text);
  };
  std::optional<actors::ChoiceData> choices;
  if (request.choices) choices.emplace(*request.choices);
  const actors::BatchProvider& batches = choices ? static_cast<const actors::BatchProvider&>(*choices) : *request.data;
  const auto evaluated = actors::evaluate(session, request.job, batches, request.microbatches, progress);
  line.wipe();
  if (session.leads()) (choices ? print_accuracy : print_losses)(request, evaluated);
}

int evaluate(const Arguments& arguments) {
  actors::Session session;
  EvaluationRequest request;
  session.prepare_together([&] { request = evaluation_request(arguments, session); });
  return run_job(session, request.job, [&] { measure(session, request); });
}

}  // namespace

Command evaluate_command() {
  return {
      .name = "eval",
      .words = "data.text=FILES|data.tokens=FILES [data.…=… …]",
      .summary = "Print the loss of a trained model on files: nats per token, perplexity, bits per byte. Alone or under mpirun.",
      .notes =
          "data.text names text files and folders, each file a document; data.tokens names token files. data.suffixes, "
          "data.separator and data.packing are as in a run; data.held_out=N takes the part that a run holds out: every N-th file, or the "
          "last part of a single one. Without data, a run directory's own validation or held-out data are taken; data.validation=FILES "
          "takes files of the same kind instead.",
      .options = with_model_options(
          {{.name = "sequence",
            .value = "S",
            .help = "Tokens per row. Default: the run's, else 512 or the model's context length if that is less."},
           {.name = "batch", .value = "B", .help = "Rows per microbatch. Default: the run's, else 4."},
           {.name = "microbatches", .value = "M", .help = "Stop after this many; 0 takes all. Default: 0."},
           {.name = "choices",
            .value = "FILE",
            .help = "In place of data: accuracy on a multiple-choice file of llm.c, by the lowest mean loss of a completion.",
            .offer = offer_files},
           {.name = "json", .help = "Print one line of JSON."}}),
      .offer = offer_assignments,
      .run = evaluate};
}

}  // namespace millrace::tools
