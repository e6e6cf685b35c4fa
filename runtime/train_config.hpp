#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/dtype.hpp"

// Plain structs with the settings of a run. The keys, ranges and explanations are in configs/schema.cpp, the only place that
// fills these structs from a file; the defaults are here.
namespace millrace::runtime {

/// [train]: one step is `microbatches` microbatches of `batch` rows of `sequence` tokens.
struct TrainConfig {
  std::int64_t steps = 1000;
  std::string dtype = "fp32";  // fp32 | bf16: compute dtype; master parameters and optimizer states are always fp32
  std::int64_t batch = 8;      // rows per microbatch
  std::int64_t sequence = 128;
  std::int64_t microbatches = 8;
  std::int64_t seed = 1;
  std::int64_t threads = 0;              // per rank; 0: cores / hosted ranks
  std::int64_t accumulation_steps = 1;   // MaxText's microsteps; each has as many of the microbatches
  std::int64_t accumulators = 1;         // A gradient sums; sum p is over the microbatches p, p + A, p + 2A, …
  std::int64_t expert_accumulators = 1;  // the same for the weights of experts
  // part | microbatch: what each sum adds up, the gradient of a part, formed in the sum itself, or those of microbatches, each formed from
  // 0
  std::string leaf = "part";
  bool offload_states = false;      // optimizer states lie in host memory, from where a GPU reads and writes them
  std::string numerics = "hf";      // hf | maxtext: the rules of the learning rate, clipping and decay
  std::string optimizer = "adamw";  // a row of runtime/optimizers/optimizer_config.hpp
  double learning_rate = 3e-4;
  double final_learning_rate = 0.0;
  std::string decay = "cosine";  // cosine | linear | wsd | wsd-cosine | rsqrt | constant
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;     // wsd: number of steps at the end over which the rate decays
  std::int64_t schedule_steps = 0;  // number of steps that the rate is a rule for; 0: `steps`
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.1;
  std::vector<std::string> decay_mask;      // regular expressions of the parameters without decay
  std::vector<std::string> groups;          // regular expressions: each selects parameters with a rate and decay of their own
  std::vector<double> group_rates;          // by group, times the learning rate; empty: 1
  std::vector<double> group_weight_decays;  // by group; -1, or empty: as without groups
  std::vector<std::string> trainable;       // regular expressions of the parameters that are trained; empty: all
  std::string first_moment = "fp32";        // fp32 | bf16: dtype in which adamw and muon store it
  double average_decay = 0.0;               // of the moving average of the parameters; 0: none is kept
  double muon_beta = 0.95;
  double muon_consistent_rms = 0.0;         // 0: steps are scaled by the matrix's outputs/inputs
  double muon_weight_decay = 0.1;           // of the matrices
  std::vector<std::string> muon_exclude;    // regular expressions of the parameters that are not matrices to Muon; empty: the default ones
  double clip = 1.0;                        // largest global gradient norm; 0: no clipping
  bool skip_spikes = false;                 // drop the gradient of a step whose loss or norm is a spike
  std::int64_t skip_window = 128;           // steps that it is compared with
  double skip_factor = 6.0;                 // standard deviations from which on it is a spike
  double qk_clip = 0.0;                     // largest attention score of a head; 0: no QK-clip
  std::int64_t ramp_microbatches = 0;       // microbatches of the first steps; 0: all steps have train.microbatches
  std::int64_t ramp_increment = 1;          // by which they grow
  std::int64_t ramp_rows = 0;               // rows until they have grown to train.microbatches
  std::string loss = "cross_entropy";       // a name of layers/losses/output_loss.hpp
  double z_loss = 0.0;                      // weight of log(Z)^2
  double balance_loss = 0.0;                // of routers, a mean over the layers with experts
  double router_z_loss = 0.0;               // weight of log(Z)^2 of routers
  double indexer_loss = 0.0;                // weight of the divergence of indexers from the attention
  bool indexer_warmup = false;              // train the indexers alone, on all keys
  double routed_bias_update_rate = 0;       // by which a step moves the biases of routers towards even loads
  double mtp_loss = 0.1;                    // weight of the loss of modules of multi-token prediction
  std::int64_t mtp_eval_target_module = 1;  // the module (from 1) of which evaluations show how much the model accepts; 0: none
  bool find_nan = false;
  std::string start_from;              // a run directory or checkpoint with which a new run begins; empty: none
  std::string start_with = "weights";  // weights | state: what is taken from it; state: the optimizer's states too

  bool operator==(const TrainConfig&) const = default;
};

/// The number of steps that the learning rate is a rule for.
[[nodiscard]] inline std::int64_t schedule_steps(const TrainConfig& train) noexcept {
  return train.schedule_steps > 0 ? train.schedule_steps : train.steps;
}

[[nodiscard]] inline kernels::DType compute_dtype(const TrainConfig& train) noexcept {
  return train.dtype == "bf16" ? kernels::DType::bf16 : kernels::DType::f32;
}
/// train.dtype's text for what compute_dtype() returns.
[[nodiscard]] inline const char* dtype_text(kernels::DType compute) noexcept { return compute == kernels::DType::bf16 ? "bf16" : "fp32"; }

/// [data]: exactly one of text and tokens is given.
struct DataConfig {
  std::vector<std::string> text;        // files and folders, through the byte tokenizer
  std::vector<std::string> suffixes;    // suffixes of the files taken from folders; empty: all files
  std::vector<std::string> tokens;      // .bin files of llm.c, nanoGPT and Megatron
  std::vector<double> weights;          // of the entries of text or tokens, each a source by itself; empty: together they are one source
  std::vector<std::string> validation;  // files and folders of the same kind, on which the run evaluates and never trains
  bool validation_found = false;        // validation was not given, but found beside the training files; no key
  std::string token_compression;        // tokenizer or table file that compresses ids for n-gram memories; empty: that of the data
  std::int64_t separator = -1;          // the token that ends a document in token files; -1: none
  std::int64_t held_out = 10;           // every n-th file is held out for evaluation; 0: none
  bool packing = true;                  // documents in one row do not attend to each other

  /// Whether some data may be kept for evaluation.
  [[nodiscard]] bool evaluates() const noexcept { return held_out > 0 || !validation.empty(); }

  bool operator==(const DataConfig&) const = default;
};

/// [evaluate]
struct EvaluateConfig {
  std::int64_t every = 0;    // in steps; 0: only at the end
  std::int64_t batches = 0;  // microbatches per evaluation; 0: the whole held-out set
  bool average = false;      // with the moving average of the parameters

  bool operator==(const EvaluateConfig&) const = default;
};

/// [pipeline]: the number of stages is ranks * chunks.
struct PipelineConfig {
  std::int64_t ranks = 1;
  std::int64_t chunks = 1;  // stages per rank
  std::string schedule = "1f1b";
  std::string layout;        // "E t*2 | t | t*3 H"; empty: layers are distributed evenly
  std::string plan;          // a file with the actions of every rank; empty: the schedule generates them
  std::int64_t warmup = -1;  // 1f1b: forwards before the first backward on rank 0; -1: ranks - 1
  // interleaved, interleaved-zb: microbatches that pass through one chunk before the next; 0: chosen by the schedule
  std::int64_t group = 0;
  // off | neighbours: whether segments of two actions are woven where ranks share experts
  std::string weave = "off";
  std::vector<std::string> costs;  // "part,F,I,W,B" in milliseconds, written by millrace plan for millrace rehearse

  bool operator==(const PipelineConfig&) const = default;
};

/// [checkpoint]
struct CheckpointConfig {
  std::int64_t every = 0;  // in steps; 0: only at the end
  std::int64_t keep = 2;   // number of newest checkpoints to keep

  bool operator==(const CheckpointConfig&) const = default;
};

/// [rematerialize]: the name of a policy, or the labels of the values to keep from forward to backward.
struct RematerializeConfig {
  std::vector<std::string> policy = {"none"};
  std::vector<std::string> stages;  // a policy per stage, labels joined with "+"; empty: `policy` for all stages

  bool operator==(const RematerializeConfig&) const = default;
};

/// [sample]: the text that the trained model generates at the end.
struct SampleConfig {
  std::string prompt;
  std::int64_t tokens = 0;   // 0: no sample
  double temperature = 0.8;  // 0: greedy, the most probable token

  bool operator==(const SampleConfig&) const = default;
};

}  // namespace millrace::runtime
