#include "layers/model_folder.hpp"

#include <gtest/gtest.h>

#include "layers/config_file.hpp"
#include "tests/layers/model_fixture.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::layers {
namespace {

using testing::golden_folder;

std::vector<float> read(const FolderWeights& weights, const ParameterSpec& spec) {
  std::vector<float> values(static_cast<std::size_t>(spec.shape.elements()));
  weights.read(spec, values);
  return values;
}

TEST(Weights, ImportAndExportAreTheIdentity) {
  for (const char* name : {"hf_llama", "hf_llama3"}) {
    const auto config = read_config_file(golden_folder(name)).model;
    const FolderWeights weights(golden_folder(name), config);
    for (const std::uint64_t shard : {std::uint64_t{5'000'000'000}, std::uint64_t{40'000}}) {
      const tests::TemporaryFolder folder;
      std::vector<float> values;
      export_model_folder(
          folder.path(), config, kernels::DType::f32,
          [&](const ParameterSpec& spec) {
            values = read(weights, spec);
            return std::span<const float>(values);
          },
          shard);
      const auto again = read_config_file(folder.path()).model;
      EXPECT_EQ(again, config);
      EXPECT_EQ(std::filesystem::exists(folder / "model.safetensors.index.json"), shard < 1'000'000);
      const FolderWeights copy(folder.path(), again);
      for (const auto& spec : model_parameters(config)) EXPECT_EQ(read(copy, spec), read(weights, spec)) << spec.name;
    }
  }
}

TEST(Weights, ExportInBf16Rounds) {
  const auto config = read_config_file(golden_folder("hf_llama")).model;
  const FolderWeights weights(golden_folder("hf_llama"), config);
  const tests::TemporaryFolder folder;
  std::vector<float> values;
  export_model_folder(folder.path(), config, kernels::DType::bf16, [&](const ParameterSpec& spec) {
    values = read(weights, spec);
    return std::span<const float>(values);
  });
  const FolderWeights rounded(folder.path(), config);
  for (const auto& spec : model_parameters(config)) {
    auto wanted = read(weights, spec);
    for (float& value : wanted) value = kernels::to_float(kernels::to_bfloat16(value));
    EXPECT_EQ(read(rounded, spec), wanted) << spec.name;
  }
}

/// A copy of a golden model with its list of tensors changed.
template <class Change>
void write_changed(const tests::TemporaryFolder& folder, Change change) {
  const runtime::SafetensorsFile file(golden_folder("hf_llama") + "/model.safetensors");
  auto tensors = file.tensors();
  change(tensors);
  runtime::write_safetensors(folder / "model.safetensors", tensors, {},
                             [](const runtime::FileTensor& tensor, const runtime::ByteSink& sink) {
                               sink(std::vector<std::byte>(runtime::bytes_of(tensor.name, tensor.dtype, tensor.shape)));
                             });
}

TEST(Weights, RefuseWhatIsMissingExtraOrMisshapen) {
  const auto config = read_config_file(golden_folder("hf_llama")).model;
  const auto open = [&](const tests::TemporaryFolder& folder) { (void)FolderWeights(folder.path(), config); };
  const auto find = [](std::vector<runtime::FileTensor>& tensors, std::string_view name) {
    return std::find_if(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name == name; });
  };
  {
    const tests::TemporaryFolder folder;
    write_changed(folder, [&](auto& tensors) { tensors.erase(find(tensors, "model.layers.1.mlp.up_proj.weight")); });
    tests::expect_error([&] { open(folder); }, ExitCode::model, {"model.layers.1.mlp.up_proj.weight"});
  }
  {
    const tests::TemporaryFolder folder;
    write_changed(folder, [&](auto& tensors) {
      tensors.push_back({"model.layers.3.mlp.up_proj.weight", runtime::FileDType::f32, {2, 2}, 0, 0});
    });
    tests::expect_error([&] { open(folder); }, ExitCode::model, {"model.layers.3.mlp.up_proj.weight"});
  }
  {
    const tests::TemporaryFolder folder;
    write_changed(folder, [&](auto& tensors) { find(tensors, "lm_head.weight")->shape = {32, 128}; });
    tests::expect_error([&] { open(folder); }, ExitCode::model, {"lm_head.weight", "[32, 128]", "[128, 32]"});
  }
  {
    const tests::TemporaryFolder folder;
    write_changed(folder, [&](auto& tensors) {
      tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", runtime::FileDType::f32, {4}, 0, 0});
    });
    open(folder);  // old checkpoints carry the table: no error
  }
}

}  // namespace
}  // namespace millrace::layers
