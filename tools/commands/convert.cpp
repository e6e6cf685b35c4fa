#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/nearest.hpp"
#include "layers/formats/config_file.hpp"
#include "layers/formats/llmc_file.hpp"
#include "layers/formats/model_folder.hpp"
#include "layers/models/model.hpp"
#include "runtime/data/tokenizers/tokenizer_files.hpp"
#include "runtime/io/file_system.hpp"
#include "tools/commands/atomic_folder.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/found_checkpoint.hpp"

namespace millrace::tools {

namespace {

constexpr const char* convert_component = "millrace convert";

/// Copies what belongs to the model's tokenizer or to generation.
void copy_companions(const std::string& from, const std::string& to) {
  for (const auto& name : runtime::tokenizer_file_names(from))
    runtime::copy_file(runtime::join_path(from, name), runtime::join_path(to, name));
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

int convert(const Arguments& parsed) {
  MILLRACE_CHECK(parsed.positional().size() == 2, ExitCode::usage, convert_component, "{}, expected FROM and TO",
                 counted(parsed.positional().size(), "path"));
  const std::string from = without_slashes(parsed.positional()[0]), to = without_slashes(parsed.positional()[1]);
  const bool folder = parsed.text("format") == "folder";
  const std::string dtype_name = parsed.text("dtype");
  want_nothing_at(to, folder, convert_component);

  want_no_run(from, convert_component);
  const auto config = layers::read_config_file(from);
  print_warnings(config.warnings);
  const auto weights = layers::open_weights(from, config.model);
  const auto dtype = dtype_name.empty() ? weights->dtype() : dtype_name == "bf16" ? kernels::DType::bf16 : kernels::DType::f32;
  std::vector<float> elements;  // of one tensor at a time
  const auto read = [&](const layers::ParameterSpec& spec) -> std::span<const float> {
    elements.resize(static_cast<std::size_t>(spec.shape.elements()));
    weights->read(spec, elements);
    return elements;
  };
  if (folder) {
    write_whole_folder(to, convert_component, [&](const std::string& place) {
      layers::export_model_folder(place, config, dtype, read);
      copy_companions(from, place);
    });
  } else {
    layers::write_llmc_file(to, config.model, dtype, read);
  }
  fmt::print("{}: {} with {} weights in {}\n", to, layers::family_title(config.model), layers::count_parameters(config.model),
             dtype == kernels::DType::bf16 ? "bf16" : "fp32");
  return 0;
}

}  // namespace

Command convert_command() {
  return {.name = "convert",
          .words = "FROM TO",
          .summary = "Convert a published model's folder, or llm.c's GPT-2 file, to another format or type.",
          .notes =
              "FROM is a folder of transformers or MaxText (config.json, model.safetensors or its shards), or a GPT-2 of llm.c "
              "(gpt2_124M.bin). TO is a folder that does not exist yet or is empty; with --format llmc, a file that does not exist "
              "yet. TO gets its name only when it is complete. Tokenizer files and generation_config.json are copied beside the weights.",
          .options = {{.name = "dtype",
                       .value = "TYPE",
                       .help = "Type of the weights. Default: as in FROM (fp32 if its tensors differ).",
                       .choices = {"fp32", "bf16"}},
                      {.name = "format",
                       .value = "FORMAT",
                       .help = "folder keeps the format of FROM's config.json; llmc is for a GPT-2 only.",
                       .fallback = "folder",
                       .choices = {"folder", "llmc"}}},
          .offer = offer_files | offer_folders,
          .run = convert};
}

}  // namespace millrace::tools
