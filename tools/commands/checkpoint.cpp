#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/nearest.hpp"
#include "layers/model_folder.hpp"
#include "runtime/checkpoint/checkpoint_file.hpp"
#include "runtime/units.hpp"
#include "tools/commands/atomic_folder.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/found_checkpoint.hpp"

namespace millrace::tools {
namespace {

constexpr const char* who = "millrace ckpt";

int list(const std::string& path) {
  const auto listed = committed_checkpoints(path, who);
  if (listed.empty()) fmt::print("no checkpoints\n");
  for (const auto& line : listed) {
    fmt::print("step {:>8}  {:>10}  {}  {}\n", line.step, line.problem.empty() ? runtime::bytes_text(line.bytes) : "?", line.folder,
               line.problem.empty() ? "whole (data not read: ckpt verify does)" : line.problem);
  }
  return 0;
}

/// Reads every byte from the disk. True when all is well.
bool verify_one(const std::string& folder) {
  const auto problems = runtime::verify_checkpoint(folder);
  for (const auto& problem : problems) fmt::print("{}: {}\n", folder, runtime::to_string(problem));
  if (!problems.empty()) return false;
  const runtime::CheckpointReader reader(folder);
  fmt::print("{}: good, step {}, {} tensors in {} files, state {}\n", folder, reader.step(), reader.manifest().tensors.size(),
             reader.manifest().shards.size(), reader.state_hash().hex());
  return true;
}

int verify(const std::string& path) {
  std::vector<std::string> folders{path};
  if (!is_checkpoint(path)) {
    folders.clear();
    for (const auto& line : committed_checkpoints(path, who)) folders.push_back(line.folder);
    MILLRACE_CHECK(!folders.empty(), ExitCode::checkpoint, who, "{}: no checkpoint was committed", path);
  }
  bool good = true;
  for (const auto& folder : folders) good = verify_one(folder) && good;
  return good ? 0 : static_cast<int>(ExitCode::difference);
}

/// The hash of the data; quick: of what the manifest says about them.
int hash(const std::string& path, bool quick) {
  const auto checkpoint = open_checkpoint(path, who);
  if (quick) {
    fmt::print("{}  as the manifest says: the data was not read\n", checkpoint.state_hash().hex());
  } else {
    fmt::print("{}\n", checkpoint.hash_data().hex());
  }
  return 0;
}

int export_model_folder(const std::string& path, std::string out, const std::string& dtype) {
  MILLRACE_CHECK(dtype == "fp32" || dtype == "bf16", ExitCode::usage, who, "--dtype {}, expected fp32 or bf16", dtype);
  const auto checkpoint = open_checkpoint(path, who);
  const auto model = model_of(checkpoint, who);
  std::vector<float> elements;
  const auto read = [&](const layers::ParameterSpec& spec) -> std::span<const float> {
    elements.resize(static_cast<std::size_t>(spec.shape.elements()));
    checkpoint.read(spec.name, elements);
    return elements;
  };
  layers::ConfigFile config{model};
  const auto& identity = checkpoint.meta().identity;
  if (const auto z_loss = identity.find("train.z_loss"); z_loss != identity.end()) config.z_loss = std::stod(z_loss->second);
  while (out.size() > 1 && out.back() == '/') out.pop_back();
  if (model.numerics != "maxtext" && config.z_loss > 0)
    print_warnings(
        std::vector{fmt::format("{}/config.json: transformers has no key for train.z_loss = {}: it stays behind", out, config.z_loss)});
  want_nothing_at(out, true, who);
  write_whole_folder(out, who, [&](const std::string& place) {
    layers::export_model_folder(place, config, dtype == "bf16" ? kernels::DType::bf16 : kernels::DType::f32, read);
  });
  fmt::print("{}: {} weights of step {} in {}; train on with model.from={}, or load it with transformers\n", out,
             layers::count_parameters(model), checkpoint.step(), dtype, out);
  return 0;
}

}  // namespace

int checkpoint(const std::vector<std::string>& arguments) {
  constexpr const char* usage = "ls RUN_DIRECTORY | verify PATH | hash PATH [--quick] | export-hf PATH OUT [--dtype fp32|bf16]";
  const Arguments parsed(arguments, {"dtype"}, {"quick"});
  const auto& words = parsed.positional();
  MILLRACE_CHECK(!words.empty(), ExitCode::usage, who, "nothing to do, expected {}", usage);
  const std::string& what = words.front();
  const std::vector<std::string> known{"ls", "verify", "hash", "export-hf"};
  MILLRACE_CHECK(std::find(known.begin(), known.end(), what) != known.end(), ExitCode::usage, who, "unknown word {}, expected {}{}", what,
                 usage, did_you_mean(what, known));
  const std::size_t wanted = what == "export-hf" ? 3 : 2;
  MILLRACE_CHECK(words.size() == wanted, ExitCode::usage, who, "{} with {} paths, expected {}", what, words.size() - 1, usage);
  MILLRACE_CHECK(what == "export-hf" || !parsed.flag("dtype"), ExitCode::usage, who, "--dtype goes with export-hf, not with {}", what);
  MILLRACE_CHECK(what == "hash" || !parsed.flag("quick"), ExitCode::usage, who, "--quick goes with hash, not with {}", what);
  if (what == "ls") return list(words[1]);
  if (what == "verify") return verify(words[1]);
  if (what == "hash") return hash(words[1], parsed.flag("quick"));
  return export_model_folder(words[1], words[2], parsed.text("dtype", "fp32"));
}

}  // namespace millrace::tools
