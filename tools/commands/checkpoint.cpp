#include <algorithm>
#include <limits>

#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/without_component.hpp"
#include "layers/formats/model_folder.hpp"
#include "layers/models/model.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/optimizers/stored_averages.hpp"
#include "runtime/units.hpp"
#include "tools/commands/atomic_folder.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/found_checkpoint.hpp"
#include "tools/commands/model_tokenizer.hpp"
#include "tools/commands/trained_model.hpp"

namespace millrace::tools {
namespace {

constexpr const char* checkpoint_component = "millrace ckpt";

/// The checkpoints of a run directory, or the one that is named.
int list(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const bool one = is_checkpoint(path);
  const auto listed = one ? std::vector{runtime::listed_checkpoint(path)} : runtime::committed_checkpoints(path, checkpoint_component);
  const auto damaged = one ? std::vector<runtime::PutAside>{} : runtime::put_aside(path);
  if (listed.empty() && damaged.empty()) fmt::print("no checkpoints\n");
  const auto print = [](std::uint64_t step, const std::string& size, const std::string& folder, const std::string& state) {
    fmt::print("step {:>8}  {:>10}  {}  {}\n", step, size, folder, runtime::without_folder(state, folder));
  };
  // By steps; what was put aside comes before what was written for the same step since.
  auto aside = damaged.begin();
  const auto print_damaged = [&](std::uint64_t last) {
    for (; aside != damaged.end() && aside->step <= last; ++aside)
      print(aside->step, "?", aside->folder,
            "damaged, put aside" + (aside->reason.empty()
                                        ? std::string(" (the journal does not say why)")
                                        : ": " + runtime::without_folder(aside->reason, runtime::checkpoints_folder(path))));
  };
  for (const auto& line : listed) {
    print_damaged(line.step);
    print(line.step, line.problem.empty() ? runtime::bytes_text(line.bytes) : "?", line.folder,
          line.problem.empty() ? "complete (data not read: ckpt verify does)" : line.problem);
  }
  print_damaged(std::numeric_limits<std::uint64_t>::max());
  const bool usable = std::ranges::any_of(listed, [](const auto& line) { return line.problem.empty(); });
  if (usable || (listed.empty() && damaged.empty())) return 0;
  if (listed.empty()) fmt::print("{}: no checkpoint is usable. {}.\n", runtime::checkpoints_folder(path), runtime::restore_advice);
  return static_cast<int>(ExitCode::checkpoint);
}

/// Reads every byte from the disk. Returns true if the checkpoint is intact, or if its run has deleted it meanwhile.
bool verify_one(const std::string& folder) {
  const auto problems = runtime::verify_checkpoint(folder);
  if (!problems.empty() && runtime::kind_of(folder) == runtime::PathKind::missing) {
    fmt::print("{}: deleted while it was read; a run keeps the last ones (checkpoint.keep)\n", folder);
    return true;
  }
  if (!problems.empty()) fmt::print("{}: damaged\n", folder);
  for (const auto& problem : problems) fmt::print("  {}\n", runtime::without_folder(runtime::to_string(problem), folder));
  if (!problems.empty()) return false;
  const runtime::CheckpointReader reader(folder);
  fmt::print("{}: good, step {}, {} in {}, state {}\n", folder, reader.step(), counted(reader.manifest().tensors.size(), "tensor"),
             counted(reader.manifest().shards.size(), "file"), reader.state_hash().hex());
  return true;
}

int verify(const std::string& path) {
  std::vector<std::string> folders{path};
  if (!is_checkpoint(path)) {
    folders.clear();
    for (const auto& line : runtime::some_checkpoints(path, checkpoint_component)) folders.push_back(line.folder);
  }
  bool good = true;
  for (const auto& folder : folders) good = verify_one(folder) && good;
  return good ? 0 : static_cast<int>(ExitCode::difference);
}

/// Prints the hash of the data; with `quick` the one recorded in the manifest, without reading the data.
int hash(const std::string& path, bool quick) {
  const auto checkpoint = open_checkpoint(path, checkpoint_component);
  if (quick) {
    fmt::print("{}  from the manifest: the data was not read\n", checkpoint.state_hash().hex());
  } else {
    fmt::print("{}\n", checkpoint.hash_data().hex());
  }
  return 0;
}

/// The tokens that begin and end a document, for config.json. A key that has no token is null there: without the key, transformers would
/// take the default of the family's class, such as 2 as the end of a text of Llama.
std::vector<std::pair<std::string, std::string>> token_ids_of(const runtime::TokenizerFiles& files) {
  std::vector<std::pair<std::string, std::string>> ids;
  if (files.empty()) return ids;
  const auto tokenizer = runtime::open_tokenizer(runtime::is_byte_vocabulary(files) ? "byte" : files.source);
  if (const auto begin = tokenizer->begin_of_document()) ids.emplace_back("bos_token_id", std::to_string(*begin));
  if (const auto end = tokenizer->end_of_document()) ids.emplace_back("eos_token_id", std::to_string(*end));
  return ids;
}

int export_model_folder(const std::string& path, std::string out, const std::string& dtype, bool average) {
  const auto checkpoint = open_checkpoint(path, checkpoint_component);
  const auto model = model_of(checkpoint, checkpoint_component);
  if (average) runtime::check_averages(checkpoint, checkpoint_component);
  std::vector<float> elements;
  const auto read = [&](const layers::ParameterSpec& spec) -> std::span<const float> {
    elements.resize(static_cast<std::size_t>(spec.shape.elements()));
    runtime::read_from(checkpoint,
                       [&] { checkpoint.read(average ? runtime::average_or_itself(checkpoint, spec.name) : spec.name, elements); });
    return elements;
  };
  layers::ConfigFile config{model};
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  const auto& identity = checkpoint.meta().identity;
  const bool maxtext = model.numerics == "maxtext";
  const auto read_weight = [&](const char* key, bool exported) {
    const auto found = identity.find(key);
    const double weight = found == identity.end() ? 0 : std::stod(found->second);
    if (weight <= 0 || exported) return weight;
    const bool weighs_another = !maxtext && std::string_view(key) == "train.balance_loss";
    print_warnings(std::vector{
        weighs_another
            ? fmt::format("{}/config.json: {} = {} is not exported: router_aux_loss_coef weighs the balance of all layers taken together",
                          out, key, weight)
            : fmt::format("{}/config.json: {} has no key for {} = {}: it is not exported", out, maxtext ? "MaxText" : "transformers", key,
                          weight)});
    return weight;
  };
  config.losses = {.z_loss = read_weight("train.z_loss", maxtext),
                   .balance_loss = read_weight("train.balance_loss", maxtext),
                   .router_z_loss = read_weight("train.router_z_loss", false),
                   .indexer_loss = read_weight("train.indexer_loss", maxtext),
                   .mtp_loss = model.mtp_layers > 0 ? read_weight("train.mtp_loss", maxtext) : 0,
                   .routed_bias_update_rate = read_weight("train.routed_bias_update_rate", maxtext)};
  const auto warmup = identity.find("train.indexer_warmup");
  config.losses.indexer_warmup = warmup != identity.end() && warmup->second == "true";
  want_nothing_at(out, true, checkpoint_component);
  auto tokenizer = tokenizer_of_run(checkpointed_model(path, checkpoint_component));
  try {
    runtime::complete_for_transformers(tokenizer);
    config.token_ids = token_ids_of(tokenizer);
  } catch (const Error& error) {  // the model is exported all the same
    print_warnings(std::vector{fmt::format("{}: exported without a tokenizer_config.json and without ids of special tokens: {}",
                                           tokenizer.source, without_component(error.what()))});
  }
  write_whole_folder(out, checkpoint_component, [&](const std::string& place) {
    layers::export_model_folder(place, config, dtype == "bf16" ? kernels::DType::bf16 : kernels::DType::f32, read);
    for (const auto& [name, text] : tokenizer.files) runtime::write_text_file(runtime::join_path(place, name), text);
  });
  fmt::print("{}: {} weights of step {} in {}; continue training with model.from={}, or load it with transformers\n", out,
             layers::count_parameters(model), checkpoint.step(), dtype, out);
  fmt::print("tokenizer: {}\n", tokenizer.empty()
                                    ? "none, since the run does not know which one made its tokens; copy its files into the folder"
                                    : tokenizer.vocabulary_file() +
                                          (runtime::is_byte_vocabulary(tokenizer) ? ", whose ids are bytes" : " of " + tokenizer.source));
  return 0;
}

const std::string& single_path(const Arguments& arguments, const char* command, const char* expected) {
  MILLRACE_CHECK(arguments.positional().size() == 1, ExitCode::usage, checkpoint_component, "{} with {}, expected {}", command,
                 counted(arguments.positional().size(), "path"), expected);
  return arguments.positional().front();
}

}  // namespace

Command checkpoint_command() {
  constexpr const char* path = "RUN_DIRECTORY|CHECKPOINT";
  return {
      .name = "ckpt",
      .summary = "List, check, hash and export checkpoints.",
      .notes = "For a run directory, hash and export-hf take its newest checkpoint.",
      .parts = {
          {.name = "ls",
           .words = path,
           .summary = "List the checkpoints of a run directory by their steps, also those that were damaged and put aside. Ends with 6 if "
                      "there are some and none is usable.",
           .offer = offer_folders,
           .run = [](const Arguments& given) { return list(single_path(given, "ls", "RUN_DIRECTORY or a checkpoint")); }},
          {.name = "verify",
           .words = path,
           .summary = "Read every byte of a checkpoint, or of all checkpoints of a run. Ends with 1 if one is damaged.",
           .offer = offer_folders,
           .run = [](const Arguments& given) { return verify(single_path(given, "verify", "RUN_DIRECTORY or a checkpoint")); }},
          {.name = "hash",
           .words = path,
           .summary = "Print the hash of a checkpoint's state, read from the disk.",
           .options = {{.name = "quick", .help = "Print the hash in the manifest, without reading the data."}},
           .offer = offer_folders,
           .run =
               [](const Arguments& given) {
                 return hash(single_path(given, "hash", "RUN_DIRECTORY or a checkpoint"), given.given("quick"));
               }},
          {.name = "export-hf",
           .words = "RUN_DIRECTORY|CHECKPOINT OUT",
           .summary = "Write config.json and model.safetensors, as transformers reads them, to a new folder OUT.",
           .options = {{.name = "dtype", .value = "TYPE", .help = "Type of the weights.", .fallback = "fp32", .choices = {"fp32", "bf16"}},
                       {.name = "average", .help = "Write the moving averages of the weights (train.average_decay)."}},
           .offer = offer_folders,
           .run = [](const Arguments& given) {
             const auto& paths = given.positional();
             MILLRACE_CHECK(paths.size() == 2, ExitCode::usage, checkpoint_component,
                            "export-hf with {}, expected a run directory or checkpoint, and OUT", counted(paths.size(), "path"));
             return export_model_folder(paths[0], paths[1], given.text("dtype"), given.given("average"));
           }}}};
}

}  // namespace millrace::tools
