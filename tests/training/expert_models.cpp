#include "tests/training/expert_models.hpp"

#include <map>

namespace millrace::tests {
namespace {

using Words = std::vector<std::string>;

const std::map<std::string, Words>& words_of_models() {
  static const std::map<std::string, Words> models{
      {"mixtral", {"model.family=mixtral", "model.experts=8", "model.experts_per_token=2", "train.balance_loss=0.01"}},
      {"qwen3_moe",
       {"model.family=qwen3_moe", "model.experts=8", "model.experts_per_token=3", "model.moe_intermediate_size=24",
        "train.optimizer=muon"}},
      {"gpt_oss", {"model.family=gpt_oss", "model.experts=4", "model.experts_per_token=2", "train.dtype=bf16"}},
      {"deepseek_v3",
       {"model.family=deepseek_v3", "model.experts=8", "model.experts_per_token=2", "model.moe_intermediate_size=24", "model.kv_heads=4",
        "model.q_lora_rank=12", "model.kv_lora_rank=10", "model.qk_nope_head_dim=6", "model.qk_rope_head_dim=4", "model.v_head_dim=5",
        "model.shared_experts=1", "model.first_dense_layers=1", "train.routed_bias_update_rate=0.01"}},
      {"maxtext",
       {"model.numerics=maxtext", "model.family=mixtral", "model.experts=8", "model.experts_per_token=2", "model.capacity_factor=1.25",
        "train.balance_loss=0.01"}}};
  return models;
}

}  // namespace

const std::vector<std::string>& expert_models() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, words] : words_of_models()) all.push_back(name);
    return all;
  }();
  return names;
}

Words expert_run(const std::string& model, const Words& layout) {
  Words words = words_of_models().at(model);
  words.insert(words.end(), {"train.microbatches=8", "train.accumulators=4"});
  words.insert(words.end(), layout.begin(), layout.end());
  return words;
}

}  // namespace millrace::tests
