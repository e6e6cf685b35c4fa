#include "layers/formats/model_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "layers/formats/config_file.hpp"
#include "layers/models/model.hpp"
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

/// Every model folder in tests/golden.
std::vector<std::string> golden_folders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder("")))
    if (std::filesystem::exists(entry.path() / "config.json") && std::filesystem::exists(entry.path() / "model.safetensors"))
      folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// Names, types, shapes and bytes.
void expect_same_tensors(const std::string& folder, const std::string& wanted_folder) {
  const runtime::TensorSource found(folder), wanted(wanted_folder);
  ASSERT_EQ(found.names(), wanted.names());
  for (const std::string& name : wanted.names()) {
    ASSERT_EQ(found.at(name).dtype, wanted.at(name).dtype) << name;
    ASSERT_EQ(found.at(name).shape, wanted.at(name).shape) << name;
    std::vector<std::byte> bytes(wanted.at(name).bytes()), wanted_bytes(bytes.size());
    found.read_bytes(name, 0, bytes);
    wanted.read_bytes(name, 0, wanted_bytes);
    EXPECT_EQ(bytes, wanted_bytes) << name;
  }
}

/// Writes a folder's model into another folder.
void copy_model(const std::string& from, const std::string& to, std::uint64_t most_shard_bytes = 5'000'000'000) {
  const auto config = read_config_file(from);
  const auto weights = open_weights(from, config.model);
  std::vector<float> values;
  const auto reader = [&](const ParameterSpec& spec) {
    values.resize(static_cast<std::size_t>(spec.shape.elements()));
    weights->read(spec, values);
    return std::span<const float>(values);
  };
  export_model_folder(to, config, weights->dtype(), reader, most_shard_bytes);
}

TEST(Weights, ImportAndExportAreTheIdentity) {
  const auto folders = golden_folders();
  EXPECT_GE(folders.size(), 21U);
  for (const std::string& name : folders) {
    SCOPED_TRACE(name);
    if (name.ends_with("_scanned")) continue;  // MaxText's scanned layers are read, and written one by one
    for (const std::uint64_t shard : {std::uint64_t{5'000'000'000}, std::uint64_t{10'000}}) {
      const tests::TemporaryFolder folder;
      copy_model(name, folder.path(), shard);
      EXPECT_EQ(std::filesystem::exists(folder / "model.safetensors.index.json"), shard < 1'000'000);
      expect_same_tensors(folder.path(), name);
      const auto again = read_config_file(folder.path()), once = read_config_file(name);
      EXPECT_EQ(again.model, once.model);
      EXPECT_EQ(again.losses, once.losses);
      EXPECT_EQ(again.token_ids, once.token_ids);
      // Losses that are in both are the only warnings.
      std::size_t weights = 0;
      for (const double weight :
           {once.losses.z_loss, once.losses.balance_loss, once.losses.indexer_loss, once.losses.routed_bias_update_rate})
        weights += weight > 0 ? 1 : 0;
      EXPECT_EQ(once.warnings.size(), weights);
      EXPECT_EQ(again.warnings.size(), once.warnings.size());
    }
  }
}

TEST(Weights, ABf16FolderStaysOne) {
  const tests::TemporaryFolder once, twice;
  const auto config = read_config_file(golden_folder("maxtext_gpt3"));
  const auto weights = open_weights(golden_folder("maxtext_gpt3"), config.model);
  std::vector<float> values;
  export_model_folder(once.path(), config, kernels::DType::bf16, [&](const ParameterSpec& spec) {
    values.resize(static_cast<std::size_t>(spec.shape.elements()));
    weights->read(spec, values);
    return std::span<const float>(values);
  });
  EXPECT_EQ(open_weights(once.path(), config.model)->dtype(), kernels::DType::bf16);
  copy_model(once.path(), twice.path());
  expect_same_tensors(twice.path(), once.path());
}

TEST(Weights, TokenIdsGoAlong) {
  const std::string text = R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
    "num_attention_heads": 2, "bos_token_id": 1, "eos_token_id": [2, 3], "pad_token_id": null})";
  const auto config = parse_config_file(text, "here");
  const auto again = parse_config_file(config_file_text(config, "float32"), "there");
  EXPECT_EQ(again.token_ids, (std::vector<std::pair<std::string, std::string>>{{"bos_token_id", "1"}, {"eos_token_id", "[2,3]"}}));
}

TEST(Weights, ExportInBf16Rounds) {
  const auto config = read_config_file(golden_folder("hf_llama")).model;
  const FolderWeights weights(golden_folder("hf_llama"), config);
  const tests::TemporaryFolder folder;
  std::vector<float> values;
  export_model_folder(folder.path(), {config}, kernels::DType::bf16, [&](const ParameterSpec& spec) {
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

/// GPT-2's upload of 2019 has no "transformer." prefix, and it contains the causal masks.
TEST(Weights, AGpt2WithoutItsPrefixIsRead) {
  const runtime::SafetensorsFile file(golden_folder("hf_gpt2") + "/model.safetensors");
  auto tensors = file.tensors();
  for (auto& tensor : tensors) tensor.name = tensor.name.substr(std::string_view("transformer.").size());
  tensors.push_back({"h.0.attn.bias", runtime::FileDType::f32, {1, 1, 2, 2}, 0, 0});
  const tests::TemporaryFolder bare, copy;
  runtime::write_safetensors(bare / "model.safetensors", tensors, {},
                             [&](const runtime::FileTensor& tensor, const runtime::ByteSink& sink) {
                               std::vector<std::byte> bytes(tensor.bytes());
                               if (tensor.name != "h.0.attn.bias") file.read_bytes(file.at("transformer." + tensor.name), 0, bytes);
                               sink(bytes);
                             });
  std::filesystem::copy_file(golden_folder("hf_gpt2") + "/config.json", bare / "config.json");
  copy_model(bare.path(), copy.path());
  expect_same_tensors(copy.path(), golden_folder("hf_gpt2"));
}

/// Weights that programs see as one and files as several: two parts of [2, 3] stacked, and two that are transposed on the way.
TEST(Weights, StackedPartsAreReadAndWrittenOneByOne) {
  ParameterSpec plain, turned;
  plain.name = "experts.up";
  plain.shape = {4, 3};
  plain.stored = {.shape = {2, 3}, .parts = {"experts.0.up", "experts.1.up"}};
  turned.name = "experts.down";
  turned.shape = {2, 3, 2};
  turned.stored = {.shape = {2, 3}, .transposed = true, .parts = {"experts.0.down", "experts.1.down"}};
  const std::vector<ParameterSpec> specs{plain, turned};
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const tests::TemporaryFolder folder;
  write_weights(folder.path(), specs, kernels::DType::f32, [&](const ParameterSpec&) { return std::span<const float>(values); });

  const runtime::TensorSource source(folder.path());
  EXPECT_EQ(source.names(), (std::vector<std::string>{"experts.0.down", "experts.0.up", "experts.1.down", "experts.1.up"}));
  EXPECT_EQ(source.at("experts.1.down").shape, (std::vector<std::int64_t>{2, 3}));
  std::vector<float> part(6);
  source.read("experts.1.up", part);
  EXPECT_EQ(part, (std::vector<float>{6, 7, 8, 9, 10, 11}));
  source.read("experts.1.down", part);  // of [3, 2] {6 7, 8 9, 10 11} in the program
  EXPECT_EQ(part, (std::vector<float>{6, 8, 10, 7, 9, 11}));

  const FolderWeights weights(folder.path(), specs, FamilyTraits{}, false);
  EXPECT_EQ(read(weights, plain), values);
  EXPECT_EQ(read(weights, turned), values);
  ParameterSpec missing = plain;
  missing.stored.parts.emplace_back("experts.2.up");
  tests::expect_error([&] { FolderWeights(folder.path(), {missing, turned}, FamilyTraits{}, false); }, ExitCode::model, {"experts.2.up"});
}

/// A rank that has some of a layer's experts reads these: tensors of their own, rows of a stack, or rows of a stack of all layers.
TEST(Weights, SomeOfTheExpertsAreReadAsOfTheWhole) {
  int slices = 0, folders = 0;
  for (const std::string& name : golden_folders()) {
    SCOPED_TRACE(name);
    const auto config = read_config_file(name).model;
    const auto weights = open_weights(name, config);
    const int before = slices;
    for (const ParameterSpec& whole : model_parameters(config)) {
      if (!whole.experts.present()) continue;
      EXPECT_EQ(whole.experts.whole, whole.shape[0]) << whole.name;
      std::vector<float> expected(static_cast<std::size_t>(whole.shape.elements()));
      weights->read(whole, expected);
      for (const std::int64_t count : {whole.shape[0] / 2, std::int64_t{1}}) {
        std::vector<float> joined;
        for (std::int64_t first = 0; first < whole.shape[0]; first += count) {
          const ParameterSpec slice = slice_of(whole, first, count);
          std::vector<float> values(static_cast<std::size_t>(slice.shape.elements()));
          weights->read(slice, values);
          joined.insert(joined.end(), values.begin(), values.end());
          ++slices;
        }
        EXPECT_EQ(joined, expected) << whole.name << " by " << count;
      }
    }
    folders += slices > before ? 1 : 0;
  }
  EXPECT_GE(folders, 20) << "with experts";
}

/// A stack that is stored transposed has the experts along its last axis; parts may be more than one of an expert.
TEST(Weights, ExpertsNeedNotBeInOrderInTheFile) {
  ParameterSpec turned, halves;
  turned.name = "experts.turned";
  turned.shape = {4, 3};
  turned.experts = {0, 4};
  turned.stored = {.shape = {3, 4}, .transposed = true};
  halves.name = "experts.halves";
  halves.shape = {2, 2, 3};
  halves.experts = {0, 2};
  halves.stored = {.shape = {3}, .parts = {"experts.0.a", "experts.0.b", "experts.1.a", "experts.1.b"}};
  const std::vector<ParameterSpec> specs{turned, halves};
  std::vector<float> values(12);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const tests::TemporaryFolder folder;
  write_weights(folder.path(), specs, kernels::DType::f32, [&](const ParameterSpec&) { return std::span<const float>(values); });
  const FolderWeights weights(folder.path(), specs, FamilyTraits{}, false);
  EXPECT_EQ(read(weights, turned), values);
  EXPECT_EQ(read(weights, slice_of(turned, 1, 2)), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(read(weights, slice_of(halves, 1, 1)), (std::vector<float>{6, 7, 8, 9, 10, 11}));
}

/// transformers keeps xielu's ½ and ε beside its learned numbers, as scalars.
TEST(Weights, TheScalarsOfXieluGoAlong) {
  ParameterSpec alpha;
  alpha.name = "mlp.act_fn.alpha_p";
  alpha.shape = {1};
  alpha.stored = {.shape = {1}};
  const std::vector<ParameterSpec> specs{alpha};
  const std::vector<float> values{0.2F};
  const tests::TemporaryFolder folder;
  write_weights(folder.path(), specs, kernels::DType::f32, [&](const ParameterSpec&) { return std::span<const float>(values); });
  const runtime::TensorSource source(folder.path());
  EXPECT_EQ(source.names(), (std::vector<std::string>{"mlp.act_fn.alpha_p", "mlp.act_fn.beta", "mlp.act_fn.eps"}));
  for (const auto& [name, expected] : {std::pair{"mlp.act_fn.beta", 0.5F}, std::pair{"mlp.act_fn.eps", -9.98377799987793e-07F}}) {
    float found = 0;
    source.read(name, std::span(&found, 1));
    EXPECT_EQ(found, expected) << name;
    EXPECT_TRUE(source.at(name).shape.empty()) << name;
  }
  EXPECT_EQ(read(FolderWeights(folder.path(), specs, FamilyTraits{}, false), alpha), values);

  const auto write_beta = [&](float beta, std::vector<std::int64_t> shape) {
    const tests::TemporaryFolder other;
    runtime::write_safetensors(
        other / "model.safetensors",
        {{"mlp.act_fn.alpha_p", runtime::FileDType::f32, {1}, 0, 0}, {"mlp.act_fn.beta", runtime::FileDType::f32, std::move(shape), 0, 0}},
        {}, [&](const runtime::FileTensor& tensor, const runtime::ByteSink& sink) {
          const float value = tensor.name.ends_with("beta") ? beta : values[0];
          for (std::uint64_t i = 0; i < runtime::bytes_of(tensor.name, tensor.dtype, tensor.shape); i += sizeof value)
            sink(std::as_bytes(std::span(&value, 1)));
        });
    (void)FolderWeights(other.path(), specs, FamilyTraits{}, false);
  };
  write_beta(0.5F, {});  // without eps, which a file may lack
  tests::expect_error([&] { write_beta(0.625F, {}); }, ExitCode::model, {"mlp.act_fn.beta = 0.625", "supported is 0.5"});
  tests::expect_error([&] { write_beta(0.5F, {2}); }, ExitCode::model, {"mlp.act_fn.beta is [2]", "expected a scalar"});
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
    open(folder);  // old checkpoints contain the table, which is not an error
  }
}

/// An earlier version of MaxText names DeepSeek's layers without their last letter.
TEST(FolderWeights, MayBeSpelledAsByAnEarlierVersion) {
  const ConfigFile file = read_config_file(golden_folder("maxtext_deepseek"));
  const FolderWeights weights(golden_folder("maxtext_deepseek"), file.model);
  const tests::TemporaryFolder folder;
  const std::vector<ParameterSpec> specs = model_parameters(file.model);
  std::vector<ParameterSpec> renamed = specs;
  for (ParameterSpec& spec : renamed)
    if (const auto at = spec.name.find("_layers_"); at != std::string::npos) spec.name.erase(at + 6, 1);
  std::vector<float> values;
  const auto reader = [&](const ParameterSpec& spec) {
    values = read(weights, specs.at(static_cast<std::size_t>(&spec - renamed.data())));
    return std::span<const float>(values);
  };
  write_weights(folder.path().string(), renamed, kernels::DType::f32, reader);
  const FolderWeights again(folder.path().string(), file.model);
  for (const ParameterSpec& spec : specs) EXPECT_EQ(read(again, spec), read(weights, spec)) << spec.name;
}

}  // namespace
}  // namespace millrace::layers
