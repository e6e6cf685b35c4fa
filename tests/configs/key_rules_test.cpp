#include "configs/key_rules.hpp"

#include "tests/configs/support.hpp"

namespace millrace::configs {
namespace {

using tests::expect_error;

struct Conflict {
  const char* name;
  std::vector<std::string> overrides;
  std::vector<std::string> says;
};

TEST(Check, RefusesValuesThatContradictEachOther) {
  const std::vector<Conflict> table = {
      {"two kinds of data", {"data.tokens=a.bin"}, {"run.toml:2", "data.text and data.tokens (at command line) are both given"}},
      {"no data", {"data.text="}, {"neither data.text nor data.tokens is given"}},
      {"two models", {"model.from=folder"}, {"run.toml:1", "model.preset and model.from (at command line) are both given"}},
      {"no model", {"model.preset="}, {"model.vocab_size is not given", "model.preset or model.from"}},
      {"vocabulary below bytes", {"model.vocab_size=256"}, {"command line: model.vocab_size = 256, expected 257 or more for data.text"}},
      {"separator beyond vocabulary", {"data.separator=257"}, {"data.separator = 257, expected a token of the vocabulary of 257"}},
      {"evaluation without files", {"data.held_out=0", "evaluate.every=5"}, {"evaluate.every = 5, but data.held_out = 0"}},
      {"heads", {"model.heads=4", "model.kv_heads=3"}, {"model.kv_heads = 3, which does not divide model.heads = 4"}},
      {"a key of other families",
       {"model.attn_logit_softcapping=30"},
       {"model.attn_logit_softcapping = 30.0, which the family llama does not have"}},
      {"windows where none are",
       {"model.family=gpt2", "model.sliding_window=4"},
       {"model.sliding_window = 4, which the family gpt2 does not have"}},
      {"MaxText's key", {"model.dropout_rate=0.1"}, {"model.dropout_rate = 0.1, which the family llama does not have"}},
      {"a window that no layer has",
       {"model.family=mistral", "model.sliding_window=4"},
       {"model.sliding_window = 4, but no layer has a sliding window"}},
      {"chunks without a size",
       {"model.layer_types=chunked_attention,full_attention"},
       {"model.attention_chunk_size = 0, expected 1 or more, model.layer_types has chunked layers"}},
      {"a chunk that no layer has", {"model.attention_chunk_size=8"}, {"model.attention_chunk_size = 8, but no layer is chunked"}},
      {"more layers of a kind than layers",
       {"model.layer_positions=rope,none,rope,rope,none"},
       {"model.layer_positions", "expected at most model.layers = 4"}},
      {"sinks where attention has no place for them",
       {"model.family=gpt2", "model.attention_sinks=true"},
       {"model.attention_sinks = true, which the family gpt2 does not have"}},
      {"NoPE where nothing turns",
       {"model.family=gpt3", "model.numerics=maxtext", "model.layer_positions=none"},
       {"model.layer_positions", "which the family gpt3 does not have"}},
      {"chunks in a block of MaxText",
       {"model.family=llama2", "model.numerics=maxtext", "model.attention_chunk_size=8"},
       {"model.attention_chunk_size = 8, which the family llama2 does not have"}},
      {"a bias that the family never has",
       {"model.family=mistral", "model.attention_bias=true"},
       {"which the family mistral with model.numerics = hf does not have"}},
      {"later tokens in a block of MaxText whose name others have",
       {"model.family=gemma", "model.numerics=maxtext", "model.causal=false"},
       {"model.causal = false, which the family gemma with model.numerics = maxtext does not have"}},
      {"a list of layers that MaxText counts in pairs",
       {"model.family=gemma2", "model.numerics=maxtext", "model.sliding_window=4", "model.layer_types=sliding_attention,full_attention"},
       {"model.layer_types", "which the family gemma2 with model.numerics = maxtext does not have"}},
      {"a window that no layer of MaxText's has",
       {"model.family=gemma3", "model.numerics=maxtext", "model.sliding_window=4"},
       {"model.sliding_window = 4, but no layer has a sliding window"}},
      {"more experts of a token than experts",
       {"model.family=mixtral", "model.experts=4", "model.experts_per_token=5"},
       {"model.experts_per_token = 5, expected at most model.experts = 4 (command line)"}},
      {"experts of which a token has none",
       {"model.family=mixtral", "model.experts=4"},
       {"model.experts_per_token = 0, expected 1 to model.experts = 4"}},
      {"layers with experts without any",
       {"model.family=qwen3_moe", "model.mlp_layer_types=dense,sparse"},
       {"model.experts = 0, expected 1 or more, model.mlp_layer_types has sparse layers"}},
      {"a balance loss without experts", {"train.balance_loss=0.01"}, {"train.balance_loss = 0.01, but the model has no experts"}},
      {"an indexer's loss without an indexer", {"train.indexer_loss=0.1"}, {"train.indexer_loss = 0.1, but the model has no indexer"}},
      {"a warm-up without a loss", {"train.indexer_warmup=true"}, {"train.indexer_warmup = true, expected train.indexer_loss above 0"}},
      {"an indexer in a family without", {"model.index_topk=4"}, {"model.index_topk = 4, which the family llama does not have"}},
      {"experts in a dense family", {"model.experts=4"}, {"model.experts = 4, which the family llama does not have"}},
      {"dynamic without length", {"model.rope=dynamic"}, {"model.rope_original_max_position = 0", "for model.rope = dynamic"}},
      {"longrope with too few factors",
       {"model.rope=longrope", "model.rope_original_max_position=64", "model.rope_short_factors=1,2", "model.rope_long_factors=1,2,3,4"},
       {"model.rope_short_factors = [1.0, 2.0], expected 4 numbers, one per rotated pair of model.head_dim = 8"}},
      {"no feature of a head rotates", {"model.rope_proportion=0.1"}, {"model.rope_proportion = 0.1, which rotates no feature"}},
      {"later tokens in a block of MaxText",
       {"model.family=llama2", "model.numerics=maxtext", "model.causal=false"},
       {"model.causal = false, which the family llama2 does not have"}},
      {"a local rotation without a base",
       {"model.family=gemma3", "model.rope_local=linear", "model.rope_local_factor=2"},
       {"model.rope_local_theta = 0.0, expected 1 or more for model.rope_local = linear"}},
      {"a local rotation in a family with one", {"model.rope_local_theta=100"}, {"which the family llama does not have"}},
      {"factors below 0", {"model.rope_short_factors=1,-2"}, {"model.rope_short_factors", "a list of numbers above 0"}},
      {"half a layer", {"model.engram_layers=1.5"}, {"model.engram_layers", "a list of integers from 0"}},
      {"odd heads", {"model.head_dim=9"}, {"model.head_dim = 9, expected an even number"}},
      {"width", {"model.hidden_size=30"}, {"model.heads = 4, which does not divide model.hidden_size = 30"}},
      {"llama3 without length", {"model.rope=llama3"}, {"model.rope_original_max_position = 0, expected 1 or more"}},
      {"llama3 factors",
       {"model.rope=llama3", "model.rope_low_freq_factor=4.5"},
       {"model.rope_high_freq_factor = 4.0, expected model.rope_low_freq_factor = 4.5 or more"}},
      {"accumulators",
       {"train.microbatches=8", "train.accumulators=3"},
       {"train.accumulators = 3, which does not divide train.microbatches = 8"}},
      {"warm-up", {"train.steps=5", "train.warmup_steps=6"}, {"train.warmup_steps = 6, expected at most train.steps = 5"}},
      {"warm-up beyond the schedule",
       {"train.steps=50", "train.schedule_steps=5", "train.warmup_steps=6"},
       {"train.warmup_steps = 6, expected at most train.schedule_steps = 5"}},
      {"warm-up of a trial that is given too", {"train.steps=5", "train.warmup_steps=10"}, {"train.warmup_steps = 10"}},
      {"wsd without decay", {"train.decay=wsd"}, {"train.decay_steps = 0, expected 1 to 1000"}},
      {"wsd too long",
       {"train.decay=wsd", "train.steps=10", "train.warmup_steps=4", "train.decay_steps=7"},
       {"train.decay_steps = 7, expected 1 to 6"}},
      {"microbatch too large", {"train.batch=1000000", "train.sequence=4096"}, {"train.batch = 1000000", "2^31 - 1"}},
      {"run too long",
       {"train.steps=1000000000", "train.microbatches=1000000", "train.batch=1000", "train.sequence=1000000"},
       {"train.steps = 1000000000, which makes"}},
      {"ranks beyond layers",
       {"pipeline.ranks=7"},
       {"command line: pipeline.ranks = 7, which makes 7 stages of 4 layers, expected at most 6"}},
      {"chunks beyond layers", {"pipeline.ranks=2", "pipeline.chunks=4"}, {"pipeline.chunks = 4, which makes 8 stages of 4 layers"}},
      {"warm-up of another schedule",
       {"pipeline.warmup=2", "pipeline.schedule=gpipe"},
       {"pipeline.warmup = 2, which is for pipeline.schedule = 1f1b"}},
      {"pipeline.group",
       {"pipeline.group=4", "pipeline.schedule=zb-h1"},
       {"pipeline.group = 4, which is for pipeline.schedule = interleaved"}},
      {"checkpoints nowhere", {"checkpoint.every=5"}, {"checkpoint.every = 5, but run.directory"}},
      {"impatient", {"cluster.timeout_ms=200"}, {"cluster.timeout_ms = 200, expected three heartbeats or more"}},
      {"policy and label", {"rematerialize.policy=full,mlpwo"}, {"rematerialize.policy", "full is a policy"}},
      {"policies and a label put out", {"rematerialize.policy=full,offload:mlpwo,minimal"}, {"rematerialize.policy", "full is a policy"}},
      {"an unknown label put out", {"rematerialize.policy=offload:mlpwoo"}, {"rematerialize.policy", "did you mean offload:mlpwo?"}},
      {"a policy put out", {"rematerialize.policy=offload:full"}, {"rematerialize.policy = offload:full, expected some of"}},
      {"no policy", {"rematerialize.policy="}, {"rematerialize.policy = [], expected a policy"}},
      {"unknown preset", {"model.preset=tny"}, {"command line: model.preset = tny, which is not in ", "llama3-8b", "did you mean tiny?"}},
      {"preset file missing", {"model.preset=mine.toml"}, {"model.preset = mine.toml: no such file"}},
  };
  for (const Conflict& conflict : table) {
    SCOPED_TRACE(conflict.name);
    expect_error([&] { (void)load_text(small_run, conflict.overrides); }, ExitCode::config, conflict.says);
  }
}

/// A combination that no config.json of these families can express: layers of several kinds.
TEST(Check, LayersMayBeMixed) {
  const auto model = load_text(small_run, {"model.layer_types=chunked_attention,full_attention", "model.attention_chunk_size=16",
                                           "model.layer_positions=rope,none", "model.attention_sinks=true", "model.rope=proportional",
                                           "model.rope_proportion=0.25", "model.hidden_act=gelu_erf"})
                         .config.model;
  using layers::LayerKind, layers::LayerPositions;
  EXPECT_EQ(model.layer_kinds, (std::vector{LayerKind::chunked, LayerKind::full, LayerKind::chunked, LayerKind::full}));
  EXPECT_EQ(model.layer_positions,
            (std::vector{LayerPositions::rotary, LayerPositions::none, LayerPositions::rotary, LayerPositions::none}));
  EXPECT_EQ(model.attention_chunk, 16);
  EXPECT_TRUE(model.attention_sinks);
  EXPECT_EQ(model.hidden_act, kernels::Activation::gelu_erf);
}

TEST(Check, AllowsTheEdges) {
  EXPECT_EQ(load_text(small_run, {"pipeline.ranks=6"}).config.pipeline.ranks, 6);  // embedding and head have ranks of their own
  EXPECT_EQ(load_text(small_run, {"pipeline.ranks=8", "pipeline.layout=E | t | t | t | t | | | H"}).config.pipeline.ranks,
            8);  // empty stages, given explicitly
  EXPECT_EQ(load_text(small_run, {"train.steps=5", "train.warmup_steps=5"}).config.train.warmup_steps, 5);
  EXPECT_EQ(load_text(small_run, {"cluster.timeout_ms=0"}).config.cluster.timeout_ms, 0);
  EXPECT_EQ(load_text(small_run, {"train.decay=wsd", "train.steps=10", "train.decay_steps=10"}).config.train.decay, "wsd");
}

TEST(Check, AllowsLabelsPutOutBesideAPolicyOrLabels) {
  using Policy = std::vector<std::string>;
  for (const Policy& policy : {Policy{"offload:context"}, Policy{"full", "offload:context"},
                               Policy{"offload:context", "none", "offload:mlpwo"}, Policy{"mlpwi_0", "offload:context", "mlpwo"}}) {
    std::string text;
    for (const auto& word : policy) text += (text.empty() ? "" : ",") + word;
    EXPECT_EQ(load_text(small_run, {"rematerialize.policy=" + text}).config.rematerialize.policy, policy) << text;
  }
}

TEST(Check, ARateThatDoesNotFallToZeroMayOutliveItsSchedule) {
  for (const char* key : {"train.final_learning_rate=1e-5", "train.decay=rsqrt"}) {
    const auto warnings = load_text(small_run, {"train.steps=20", "train.schedule_steps=9", key}).warnings;
    for (const auto& warning : warnings) EXPECT_EQ(warning.find("nothing is learnt"), std::string::npos) << warning;
  }
}

TEST(Check, WarnsOfValuesWithoutEffect) {
  const auto warnings = [](std::vector<std::string> overrides) { return load_text(small_run, std::move(overrides)).warnings; };
  EXPECT_TRUE(warnings({}).empty());
  const struct {
    std::vector<std::string> overrides;
    const char* says;
  } table[] = {
      {{"train.decay_steps=5"}, "command line: train.decay_steps = 5 has no effect: train.decay is not wsd"},
      {{"train.decay=constant", "train.final_learning_rate=0.1"}, "train.final_learning_rate = 0.1 has no effect"},
      {{"train.decay=constant", "train.schedule_steps=9"}, "train.schedule_steps = 9 has no effect: train.decay is constant"},
      {{"train.steps=20", "train.schedule_steps=9"},
       "command line: train.schedule_steps = 9 is below train.steps = 20: the learning rate is 0 from step 10 on"},
      {{"train.start_with=state"}, "train.start_with = \"state\" has no effect: train.start_from is empty"},
      {{"pipeline.plan=p.json", "pipeline.schedule=gpipe"}, "pipeline.schedule = \"gpipe\" has no effect"},
      {{"sample.prompt=x"}, "sample.prompt = \"x\" has no effect"},
      {{"data.separator=3"}, "data.separator = 3 has no effect"},
      {{"train.sequence=300"}, "train.sequence = 300 is longer than model.max_position_embeddings = 256"},
  };
  for (const auto& row : table) {
    const auto found = warnings(row.overrides);
    ASSERT_EQ(found.size(), 1u) << row.says;
    EXPECT_NE(found[0].find(row.says), std::string::npos) << found[0];
  }
}

}  // namespace
}  // namespace millrace::configs
