#include "layers/models/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/expect_error.hpp"

namespace millrace::layers {
namespace {

ModelConfig llama3_8b() {
  ModelConfig config;
  config.vocab_size = 128256;
  config.hidden_size = 4096;
  config.intermediate_size = 14336;
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 128;
  config.rope.theta = 500000.0;
  return config;
}

ModelConfig llama32_1b() {
  ModelConfig config = llama3_8b();
  config.hidden_size = 2048;
  config.intermediate_size = 8192;
  config.layers = 16;
  config.head_dim = 64;
  config.tie_word_embeddings = true;
  return config;
}

TEST(Parameters, CountAsPublished) {
  EXPECT_EQ(count_parameters(llama3_8b()), 8'030'261'248);
  EXPECT_EQ(count_parameters(llama32_1b()), 1'235'814'400);
}

TEST(Parameters, ComeInModelOrder) {
  ModelConfig config = llama3_8b();
  config.layers = 1;
  std::vector<std::string> names;
  for (const auto& spec : model_parameters(config)) names.push_back(spec.name);
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model.embed_tokens.weight", layer + "input_layernorm.weight", layer + "self_attn.q_proj.weight",
                       layer + "self_attn.k_proj.weight", layer + "self_attn.v_proj.weight", layer + "self_attn.o_proj.weight",
                       layer + "post_attention_layernorm.weight", layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight",
                       layer + "mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"}));
}

TEST(Parameters, StagesOwnEachTensorOnce) {
  for (const bool tied : {false, true}) {
    ModelConfig config = llama3_8b();
    config.layers = 5;
    config.tie_word_embeddings = tied;
    const auto whole = model_parameters(config);
    for (std::int64_t stages = 1; stages <= 7; ++stages) {
      std::multiset<std::string> names;
      for (const auto& stage : uniform_layout(chain_of(config), stages)) {
        for (const auto& spec : parameters(config, stage)) {
          names.insert(spec.name);
          EXPECT_EQ(whole.at(static_cast<std::size_t>(spec.order)).name, spec.name);
          EXPECT_EQ(spec.initial.kind, spec.shape.rank() == 1 ? InitialKind::ones : InitialKind::normal);
          EXPECT_EQ(spec.use, tied && stage.head && spec.name == "model.embed_tokens.weight" && spec.use == 1 ? 1 : 0);
        }
      }
      EXPECT_EQ(names.size(), whole.size() + (tied ? 1 : 0)) << stages << " stages";
      EXPECT_EQ(names.count("model.embed_tokens.weight"), tied ? 2U : 1U);
      EXPECT_EQ(names.count("lm_head.weight"), tied ? 0U : 1U);
    }
  }
}

TEST(Parameters, TiedTableIsUseOneInTheHead) {
  ModelConfig config = llama32_1b();
  const auto layout = uniform_layout(chain_of(config), 4);
  const auto first = parameters(config, layout.front()), last = parameters(config, layout.back());
  EXPECT_EQ(first.front().name, "model.embed_tokens.weight");
  EXPECT_EQ(first.front().use, 0);
  EXPECT_EQ(last.back().name, "model.embed_tokens.weight");
  EXPECT_EQ(last.back().use, 1);
  EXPECT_EQ(last.back().order, 0);
}

/// One name, two families: the numerics decide.
TEST(Families, AreNamedByTheirNumericsToo) {
  ModelConfig config = llama3_8b();
  config.family = "gemma";
  config.layers = 1;
  EXPECT_EQ(model_parameters(config).at(1).name, "model.layers.0.input_layernorm.weight");
  EXPECT_EQ(family_title(config), "gemma");
  config.numerics = "maxtext";
  EXPECT_EQ(model_parameters(config).at(1).name, "decoder.layers_0.pre_self_attention_norm.scale");
  EXPECT_EQ(family_title(config), "gemma (maxtext)");
  config.family = "gemma0";
  tests::expect_error(
      [&] { (void)resolve(config); }, ExitCode::model,
      {"model.family = \"gemma0\", expected one of: llama, mistral, mixtral, gemma, gemma2, gemma3, gemma4, qwen2, qwen3, qwen3_moe, "
       "qwen3_next, qwen3_5, qwen3_5_moe, deepseek_v2, deepseek_v3, deepseek_v32, olmo3, llama4, gpt2, gpt_oss, default, llama2, "
       "gemma4_small, "
       "deepseek, gpt3, simple, simple_mlp"});
}

TEST(Labels, AreMaxTexts) {
  EXPECT_EQ(known_labels(llama3_8b()), (std::vector<std::string>{"attention_out", "context", "decoder_layer_input", "key_proj", "mlpwi_0",
                                                                 "mlpwi_1", "mlpwo", "out_proj", "query_proj", "value_proj"}));
}

/// Every layer's spec has its own kind, and the layer's program follows the spec.
TEST(LayerSpecs, SayWhatEachLayerIs) {
  ModelConfig config = llama32_1b();
  config.layers = 3;
  config.layer_kinds = {LayerKind::chunked, LayerKind::full, LayerKind::sliding};
  config.attention_chunk = 8;
  config.sliding_window = 5;
  config.layer_positions = {LayerPositions::rotary, LayerPositions::none, LayerPositions::rotary};
  config.attention_sinks = true;
  config.rope.kind = RopeKind::proportional;
  config.rope.proportion = 0.25;
  const ModelSpec model = resolve(config);
  ASSERT_EQ(model.layers.size(), 3U);
  const auto attention = [&](std::size_t layer) { return model.layers[layer].attention(); };
  EXPECT_EQ(attention(0).chunk, 8);
  EXPECT_EQ(attention(0).window, 0);
  EXPECT_EQ(attention(1).chunk + attention(1).window, 0);
  EXPECT_EQ(attention(2).window, 5);
  EXPECT_EQ(attention(2).rope->proportion, 0.25);
  EXPECT_FALSE(attention(1).rope.has_value());

  const auto program = build_stage(config, {false, 0, 3, false}, {});
  std::multiset<std::string> operations;
  for (const auto& operation : program.operations)
    if (operation.name.ends_with("_rope")) operations.insert(operation.name);
  EXPECT_EQ(operations, (std::multiset<std::string>{"layers.0.self_attn.k_rope", "layers.0.self_attn.q_rope", "layers.2.self_attn.k_rope",
                                                    "layers.2.self_attn.q_rope"}));
  std::vector<std::string> sinks;
  for (const auto& spec : model_parameters(config))
    if (spec.name.ends_with(".sinks")) sinks.push_back(spec.name);
  EXPECT_EQ(sinks, (std::vector<std::string>{"model.layers.0.self_attn.sinks", "model.layers.1.self_attn.sinks",
                                             "model.layers.2.self_attn.sinks"}));
}

TEST(Stages, AnEmptyStageCopies) {
  const auto program = build_stage(llama3_8b(), {false, 3, 0, false}, {kernels::DType::bf16, 2, 16, {}, Output::loss});
  ASSERT_EQ(program.operations.size(), 1U);
  ASSERT_EQ(program.inputs.size(), 1U);
  ASSERT_EQ(program.outputs.size(), 1U);
  const runtime::ValueId in = program.inputs[0].value, out = program.outputs[0].value;
  EXPECT_FALSE(in == out);
  EXPECT_EQ(program.value(out).type, program.value(in).type);
  EXPECT_EQ(program.value(out).type.dtype, kernels::DType::bf16);
}

TEST(Stages, LastStageEndsInLossOrLogits) {
  const auto config = llama3_8b();
  const StageLayout head{false, 31, 1, true};
  EXPECT_TRUE(build_stage(config, head, {}).losses.size() == 1);
  StageOptions options;
  options.output = Output::logits;
  options.sequence = 3;
  const auto program = build_stage(config, head, options);
  ASSERT_TRUE(program.logits.valid());
  EXPECT_TRUE(program.losses.empty());
  EXPECT_EQ(program.value(program.logits).type.shape, (kernels::Shape{3, 128256}));
}

TEST(Stages, RefuseAConfigThatDoesNotFit) {
  auto config = llama3_8b();
  config.kv_heads = 5;
  tests::expect_error([&] { (void)build_stage(config, {true, 0, 1, false}, {}); }, ExitCode::model, {"heads = 32", "kv_heads = 5"});
  config = llama3_8b();
  config.head_dim = 127;
  tests::expect_error([&] { (void)build_stage(config, {true, 0, 1, false}, {}); }, ExitCode::model, {"head_dim = 127"});
  config = llama3_8b();
  config.vocab_size = 0;
  tests::expect_error([&] { (void)build_stage(config, {true, 0, 1, false}, {}); }, ExitCode::model, {"vocab_size = 0"});
  config = llama3_8b();
  config.family = "lama";
  tests::expect_error([&] { (void)build_stage(config, {true, 0, 1, false}, {}); }, ExitCode::model, {"\"lama\"", "llama"});
}

}  // namespace
}  // namespace millrace::layers
