#include "configs/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "configs/key_binding.hpp"
#include "runtime/optimizers/optimizer_config.hpp"
#include "runtime/schedule/schedule_config.hpp"

namespace millrace::configs {
namespace {

using namespace binding;
using enum Mark;

std::vector<std::string> device_names() {
  return {
#define MILLRACE_DEVICE(kind, ...) #kind,
#include "kernels/base/devices.inc"
#undef MILLRACE_DEVICE
  };
}

void run_keys(std::vector<Key>& keys) {
  keys.push_back(among(bind("device", identity, "The device that the kernels run on.", MEMBER(device)), device_names()));
  keys.push_back(
      bind("run.directory", layout, "Folder for checkpoints, metrics and traces. Empty: nothing is written.", MEMBER(directory)));
  keys.push_back(
      among(bind("run.record", layout, "hashes: record a hash of every tensor of every step in run.directory, for millrace compare. Slow.",
                 MEMBER(record)),
            {"none", "hashes"}));
  keys.push_back(bind("run.record_internal_metrics", layout,
                      "Record mean, standard deviation and the fraction of zeros of every layer's output in each step.",
                      MEMBER(internal_metrics)));
  keys.push_back(
      bind("run.tensorboard", layout, "Write TensorBoard event files to the folder tensorboard of run.directory.", MEMBER(tensorboard)));
}
void data_keys(std::vector<Key>& keys) {
  // The paths of the data are layout keys, so that data can be moved. Their fingerprint (names, sizes, tokens) and the hash of
  // their content are part of the identity.
  keys.push_back(bind("data.text", layout, "Text files and folders, read as bytes. Set either this or data.tokens.", MEMBER(data.text)));
  keys.push_back(bind("data.tokens", layout,
                      "Token files of llm.c, nanoGPT or Megatron (.bin; Megatron's with its .idx beside it, or the common name without "
                      "both suffixes), or folders of them.",
                      MEMBER(data.tokens)));
  keys.push_back(
      between(bind("data.weights", identity,
                   "A mixture: one weight for each entry of data.tokens or data.text, which is then a source by itself, with its "
                   "own order and epochs. Samples are taken in proportion to the weights (Megatron: --data-path 0.3 A 0.7 B). "
                   "Empty: all files are one source.",
                   MEMBER(data.weights)),
              above_zero, 1e15));
  keys.push_back(
      bind("data.validation", layout,
           "Files and folders on which the run evaluates and never trains, of the same kind as data.text or data.tokens. If neither this "
           "nor data.held_out is given, the val files of llm.c and nanoGPT beside the train files of data.tokens.",
           MEMBER(data.validation)));
  keys.push_back(bind("data.suffixes", identity,
                      "Suffixes of the files taken from folders, such as [\".py\", \".md\"]. Empty: all files (for data.tokens: .bin).",
                      MEMBER(data.suffixes)));
  keys.push_back(between(
      bind("data.separator", identity, "The token that ends a document in data.tokens. -1: none.", MEMBER(data.separator)), -1, 1 << 26));
  keys.push_back(between(
      bind("data.held_out", identity,
           "Hold out every n-th file of each source for evaluation; from a single file, the last n-th of its tokens, beginning with a "
           "document. 0: none, as with data.validation.",
           MEMBER(data.held_out)),
      0, many, "files"));
  keys.push_back(
      bind("data.token_compression", layout,
           "Models with n-gram memories: the tokenizer whose vocabulary is compressed, or a table file that `millrace data compress` "
           "made of it. Not given: the byte vocabulary for data.text, else the tokenizer in the folder of model.from.",
           MEMBER(data.token_compression)));
  keys.push_back(bind("data.packing", identity, "Documents packed into one row do not attend to each other.", MEMBER(data.packing)));
}

/// What a new run begins with. The path is a layout key, since the other run may be moved or deleted once this one has checkpoints; what
/// was taken is part of the identity (actors/jobs/start_source.hpp).
void start_keys(std::vector<Key>& keys) {
  keys.push_back(bind("train.start_from", layout,
                      "Begin a new run at step 0 with weights of another one: a run directory (its newest checkpoint) or a checkpoint's "
                      "folder, of any layout. A run that has checkpoints of its own resumes from those. Empty: not.",
                      MEMBER(train.start_from)));
  keys.push_back(among(bind("train.start_with", identity,
                            "What is taken from train.start_from. weights: optimizer states begin anew; state: those too, and the count of "
                            "updates for bias corrections.",
                            MEMBER(train.start_with)),
                       {"weights", "state"}));
}

void train_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("train.steps", layout,
                   "Number of steps of the run. A run may be resumed with another number if the learning rate of the steps that it has "
                   "made stays what it was: train.schedule_steps. Given beside a file that says more, it shortens a warm-up and a decay of "
                   "the file that do not fit, with a warning.",
                   MEMBER(train.steps)),
              1, many, "steps"));
  keys.push_back(
      among(bind("train.dtype", identity, "Compute dtype. Master parameters and optimizer states are always fp32.", MEMBER(train.dtype)),
            {"fp32", "bf16"}));
  keys.push_back(between(bind("train.batch", identity, "Rows per microbatch.", MEMBER(train.batch)), 1, 1 << 20, "rows"));
  keys.push_back(between(bind("train.sequence", identity, "Tokens per row.", MEMBER(train.sequence)), 1, 1 << 24, "tokens"));
  keys.push_back(between(bind("train.microbatches", identity, "Microbatches per step.", MEMBER(train.microbatches)), 1, 1 << 20));
  keys.push_back(between(bind("train.seed", identity, "Random seed of initial weights and data order.", MEMBER(train.seed)), 0, 9e18));
  keys.push_back(between(bind("train.threads", layout,
                              "Compute threads per rank, on which no bits depend. 0: cores / ranks of the process.", MEMBER(train.threads)),
                         0, 4096, "threads"));
  keys.push_back(between(bind("train.ramp_microbatches", identity,
                              "Microbatches of the first steps, from which the batch grows to train.microbatches. 0: it does not grow.",
                              MEMBER(train.ramp_microbatches)),
                         0, 1 << 20));
  keys.push_back(
      between(bind("train.ramp_increment", identity, "Microbatches by which the batch grows each time.", MEMBER(train.ramp_increment)), 1,
              1 << 20));
  keys.push_back(between(bind("train.ramp_rows", identity, "Rows until the batch has grown, an equal share of them before each increment.",
                              MEMBER(train.ramp_rows)),
                         0, many, "rows"));
  keys.push_back(between(bind("train.accumulation_steps", identity,
                              "With train.numerics = maxtext: its gradient_accumulation_steps, which share the step's microbatches. Their "
                              "number divides the gradient of auxiliary losses as MaxText does, and each step of them moves the biases of "
                              "routers.",
                              MEMBER(train.accumulation_steps)),
                         1, 1 << 20));
  keys.push_back(between(bind("train.accumulators", identity,
                              "Number A of gradient sums: sum p is over the microbatches p, p + A, p + 2A, …, and the sums are added as a "
                              "tree. A multiple of the copies (mesh.data) that may ever share the run; dualpipe counts twice, and takes 1 "
                              "for 2 where there is one copy.",
                              MEMBER(train.accumulators)),
                         1, 1 << 20));
  keys.push_back(between(bind("train.expert_accumulators", identity,
                              "The same for the weights of experts. Where they are shared (mesh.expert), it is the number of owners of "
                              "each: mesh.data / mesh.expert, "
                              "twice as many for dualpipe; else a multiple of the copies.",
                              MEMBER(train.expert_accumulators)),
                         1, 1 << 20));
  keys.push_back(among(
      bind("train.leaf", identity,
           "What gradient sums add up. part: weight gradients add to the sum of their part as they are computed. "
           "microbatch: the gradient of each microbatch is formed by itself, and the finished ones are added in order, "
           "which is what mesh.shard = gradients and parameters divide; one more pass over the gradients for each microbatch. Weights "
           "of experts are summed by parts.",
           MEMBER(train.leaf)),
      {"part", "microbatch"}));
  keys.push_back(
      bind("train.offload_states", layout,
           "Keep the optimizer's states in host memory, which frees 8 bytes per parameter on a GPU with adamw. Each update reads "
           "and writes them over the GPU's bus. On CPUs they are there anyway.",
           MEMBER(train.offload_states)));
  keys.push_back(among(bind("train.numerics", identity,
                            "Whose training rules: hf are those of PyTorch and transformers; maxtext are MaxText's learning rate (0 in the "
                            "first step of the warm-up, final in the last step), clipping, and weight decay on all parameters.",
                            MEMBER(train.numerics)),
                       {"hf", "maxtext"}));
  std::vector<std::string> optimizers;
  for (const auto& choice : runtime::optimizer_choices) optimizers.emplace_back(choice.name);
  keys.push_back(
      among(bind("train.optimizer", identity,
                 "The optimizer: adamw; adam_pax, MaxText's Adam, which stores bias-corrected moments; sgd as in PyTorch; muon for "
                 "matrices, with AdamW for the other parameters.",
                 MEMBER(train.optimizer)),
            std::move(optimizers)));
  keys.push_back(
      between(bind("train.learning_rate", identity, "Peak learning rate, after the warm-up.", MEMBER(train.learning_rate)), 0, 1000));
  keys.push_back(between(
      bind("train.final_learning_rate", identity, "Learning rate at the end of the decay.", MEMBER(train.final_learning_rate)), 0, 1000));
  keys.push_back(among(bind("train.decay", identity, "Shape of the learning rate after the warm-up.", MEMBER(train.decay)),
                       {"cosine", "linear", "wsd", "wsd-cosine", "rsqrt", "constant"}));
  keys.push_back(
      between(bind("train.warmup_steps", identity,
                   "Warm-up steps, in which the learning rate rises. In a trial of a few steps they may be shortened: train.steps.",
                   MEMBER(train.warmup_steps)),
              0, many, "steps"));
  keys.push_back(
      between(bind("train.decay_steps", identity,
                   "wsd, wsd-cosine: steps of the decay at the end. In a trial of a few steps they may be shortened: train.steps.",
                   MEMBER(train.decay_steps)),
              0, many, "steps"));
  keys.push_back(between(bind("train.schedule_steps", identity,
                              "Number of steps that the learning rate is a rule for, whatever train.steps is; after them it stays at its "
                              "last value. 0: train.steps.",
                              MEMBER(train.schedule_steps)),
                         0, many, "steps"));
  keys.push_back(between(
      bind("train.beta1", identity, "adamw, adam_pax, muon's AdamW: decay of the first moment, the gradient's mean.", MEMBER(train.beta1)),
      0, 0.999999999));
  keys.push_back(between(bind("train.beta2", identity, "adamw, adam_pax, muon's AdamW: decay of the second moment, the mean of its square.",
                              MEMBER(train.beta2)),
                         0, 0.999999999));
  keys.push_back(
      between(bind("train.epsilon", identity, "adamw, adam_pax: added to the root of the second moment. muon: for the matrix's norm too.",
                   MEMBER(train.epsilon)),
              0, 1));
  keys.push_back(
      between(bind("train.momentum", identity, "sgd: momentum, the decay of the sum of past gradients. 0: none, and no optimizer state.",
                   MEMBER(train.momentum)),
              0, 0.999999999));
  keys.push_back(bind("train.nesterov", identity, "sgd: Nesterov momentum; requires train.momentum above 0.", MEMBER(train.nesterov)));
  keys.push_back(between(bind("train.weight_decay", identity,
                              "Weight decay. adamw, adam_pax: decoupled, scaled by the learning rate; sgd: added to the gradient. Applies "
                              "to parameters with two or more dimensions; with train.numerics = maxtext to all.",
                              MEMBER(train.weight_decay)),
                         0, 1000));
  keys.push_back(bind("train.decay_mask", identity,
                      "Regular expressions of parameters without weight decay, searched in the name with / in place of its dots.",
                      MEMBER(train.decay_mask)));
  keys.push_back(
      bind("train.groups", identity,
           "Regular expressions, searched as those of train.decay_mask: each makes a group of parameters with a learning rate and "
           "weight decay of its own. A parameter belongs to the first that finds its name; the others are updated as always.",
           MEMBER(train.groups)));
  keys.push_back(between(bind("train.group_rates", identity,
                              "For each of train.groups what multiplies the learning rate. Empty: 1 for all.", MEMBER(train.group_rates)),
                         0, 1000000));
  keys.push_back(between(bind("train.group_weight_decays", identity,
                              "For each of train.groups its weight decay, which applies to all of its parameters. -1, or an empty list: as "
                              "without groups.",
                              MEMBER(train.group_weight_decays)),
                         -1, 1000));
  keys.push_back(
      between(bind("train.muon_beta", identity, "muon: decay of the momentum of matrices.", MEMBER(train.muon_beta)), 0, 0.999999999));
  keys.push_back(
      between(bind("train.muon_consistent_rms", identity,
                   "muon: the root mean square of a matrix's step, in units of the learning rate; 0.2 is that of AdamW. 0: steps "
                   "are scaled by the root of outputs / inputs, where that is above 1.",
                   MEMBER(train.muon_consistent_rms)),
              0, 1000));
  keys.push_back(between(bind("train.muon_weight_decay", identity,
                              "muon: weight decay of matrices, scaled by the learning rate; train.weight_decay is that of the others.",
                              MEMBER(train.muon_weight_decay)),
                         0, 1000));
  keys.push_back(bind("train.muon_exclude", identity,
                      "muon: regular expressions of parameters that AdamW updates, searched in the name with / in place of its dots. Those "
                      "with fewer than two dimensions it updates anyway. Empty: embeddings, output heads, biases and convolutions.",
                      MEMBER(train.muon_exclude)));
  keys.push_back(among(bind("train.first_moment", identity,
                            "adamw, muon: dtype in which the first moment is stored. It is rounded after the update has used it.",
                            MEMBER(train.first_moment)),
                       {"fp32", "bf16"}));
  keys.push_back(
      between(bind("train.average_decay", identity,
                   "Decay of the exponential moving average of the parameters, which is kept as a state of the optimizer. 0: none.",
                   MEMBER(train.average_decay)),
              0, 0.999999999));
  keys.push_back(
      bind("train.trainable", identity,
           "Regular expressions of the parameters that are trained, searched in the name with / in place of its dots. The others "
           "stay as they are and have no optimizer state; their gradients count in the norm. Empty: all are trained.",
           MEMBER(train.trainable)));
  keys.push_back(
      between(bind("train.clip", identity, "Largest global norm of the gradient; larger gradients are scaled down to it. 0: no clipping.",
                   MEMBER(train.clip)),
              0, 1e30));
  keys.push_back(between(bind("train.qk_clip", identity,
                              "QK-clip: after an update, scale down the weights of queries and keys of heads with a score above this. For "
                              "latent attention. 0: none.",
                              MEMBER(train.qk_clip)),
                         0, 1e6));
  keys.push_back(bind("train.skip_spikes", identity,
                      "Skip the update of a step whose loss or gradient norm exceeds those of the last steps by too much.",
                      MEMBER(train.skip_spikes)));
  keys.push_back(
      between(bind("train.skip_window", identity, "Number of last steps that a step is compared with.", MEMBER(train.skip_window)), 1,
              1 << 20, "steps"));
  keys.push_back(
      between(bind("train.skip_factor", identity, "Number of standard deviations above the mean from which on a loss or norm is a spike.",
                   MEMBER(train.skip_factor)),
              0, 1e6));
  keys.push_back(bind("train.loss", identity,
                      "The loss of the output head: cross_entropy, or one that a program of your own adds (examples/outside).",
                      MEMBER(train.loss)));
  keys.push_back(between(
      bind("train.z_loss", identity, "Weight of the squared logarithm of the softmax's sum. 0: none.", MEMBER(train.z_loss)), 0, 1000));
  keys.push_back(
      between(bind("train.balance_loss", identity,
                   "Weight of the loss by which routers spread tokens over their experts, a mean over the layers with experts. 0: none.",
                   MEMBER(train.balance_loss)),
              0, 1000));
  keys.push_back(between(bind("train.router_z_loss", identity,
                              "Weight of the squared logarithm of the sum of a router's softmax, a mean over tokens and layers. 0: none.",
                              MEMBER(train.router_z_loss)),
                         0, 1000));
  keys.push_back(
      between(bind("train.indexer_loss", identity,
                   "Weight of the loss that trains indexers: how far their scores are from the attention, a mean over tokens and "
                   "layers. 0: none, and they are not trained.",
                   MEMBER(train.indexer_loss)),
              0, 1000));
  keys.push_back(between(bind("train.mtp_loss", identity,
                              "Weight of the loss of the modules that predict further tokens (model.mtp_layers), a mean over what all of "
                              "them have to predict. 0: they are not trained.",
                              MEMBER(train.mtp_loss)),
                         0, 1000));
  keys.push_back(between(bind("train.mtp_eval_target_module", layout,
                              "The module whose acceptance rate evaluations show: how much of what it predicts the model predicts too, "
                              "one token later for module 1. 0: none.",
                              MEMBER(train.mtp_eval_target_module)),
                         0, 64));
  keys.push_back(bind("train.indexer_warmup", identity,
                      "Train the indexers alone, on all keys that a query sees, not on those that they choose. The loss of the language "
                      "model is computed in evaluations, and trains nothing.",
                      MEMBER(train.indexer_warmup)));
  keys.push_back(between(
      bind("train.routed_bias_update_rate", identity,
           "After each step this is added to the routers' bias of every expert that was chosen less often than the mean, and taken from "
           "that of every expert that was chosen more often; requires routers with a bias. 0: biases stay.",
           MEMBER(train.routed_bias_update_rate)),
      0, 1000));
  keys.push_back(bind("train.find_nan", layout,
                      "Check the results of every operation, and end at the first value that is not finite, with the operation's name. "
                      "Slow. Without it, a step that is not finite is run once more to find the operation.",
                      MEMBER(train.find_nan)));
}

void evaluate_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("evaluate.every", layout, "Steps between evaluations on the held-out data. 0: only at the end.", MEMBER(evaluate.every)),
              0, many, "steps"));
  keys.push_back(
      between(bind("evaluate.batches", layout, "Microbatches per evaluation. 0: the whole held-out set.", MEMBER(evaluate.batches)), 0,
              many, "microbatches"));
  keys.push_back(bind("evaluate.average", layout,
                      "Evaluate the moving average of the parameters (train.average_decay), not their last values.",
                      MEMBER(evaluate.average)));
}

void pipeline_keys(std::vector<Key>& keys) {
  keys.push_back(between(
      bind("pipeline.ranks", layout, "Number of pipeline ranks, of each copy. The ranks of all copies are a multiple of the processes.",
           MEMBER(pipeline.ranks)),
      1, 1 << 16));
  keys.push_back(between(bind("pipeline.chunks", layout, "Stages per rank (Megatron: virtual pipeline stages).", MEMBER(pipeline.chunks)),
                         1, 1 << 10));
  keys.push_back(among(bind("pipeline.schedule", layout, "The order of forwards and backwards on each rank.", MEMBER(pipeline.schedule)),
                       {runtime::schedule_names().begin(), runtime::schedule_names().end()}));
  keys.push_back(bind("pipeline.layout", layout,
                      "Layers of each stage, such as \"E t*2 | t | t*3 H\". A layer may be cut in two, a is its attention, f its MLP or "
                      "experts: \"E t a | f t H\". Empty: layers are distributed evenly.",
                      MEMBER(pipeline.layout)));
  keys.push_back(bind("pipeline.plan", layout,
                      "A file with every rank's actions, in place of pipeline.schedule; or a .toml written by millrace plan.",
                      MEMBER(pipeline.plan)));
  keys.push_back(bind("pipeline.costs", layout,
                      "Measured times of the model's parts, written by millrace plan: \"part,F,I,W,B\" in ms per microbatch, where part is "
                      "embedding, layer, layer 0-3 or head. Used by millrace rehearse, ignored by training.",
                      MEMBER(pipeline.costs)));
  keys.push_back(between(
      bind("pipeline.warmup", layout,
           "1f1b: forwards of rank 0 before it alternates forward and backward. -1: ranks - 1; where neighbours are woven 2 * ranks - 1.",
           MEMBER(pipeline.warmup)),
      -1, 1 << 20, "microbatches"));
  keys.push_back(
      between(bind("pipeline.group", layout,
                   "interleaved, interleaved-zb: microbatches that pass through one chunk before the next. 0: chosen by the schedule.",
                   MEMBER(pipeline.group)),
              0, 1 << 20, "microbatches"));
  keys.push_back(among(
      bind("pipeline.weave", layout,
           "Where ranks share experts (mesh.expert): off: actions run one after another, and exchanges are hidden under weight "
           "gradients and shared experts alone; neighbours: two neighbouring actions of different microbatches run segment by "
           "segment, so that one computes while the rows of the other are under way; auto: neighbours if the simulator expects a shorter "
           "step of it.",
           MEMBER(pipeline.weave)),
      {"off", "neighbours", "auto"}));
}

void mesh_keys(std::vector<Key>& keys) {
  keys.push_back(between(bind("mesh.data", layout,
                              "Copies of the pipeline, which share the microbatches of a step (Megatron: data-parallel size); a run has "
                              "mesh.data * pipeline.ranks ranks. 0: as many as mesh.expert.",
                              MEMBER(mesh.data)),
                         0, 1 << 16));
  keys.push_back(
      between(bind("mesh.expert", layout,
                   "Ranks that share the experts of a layer, each in a copy of its own (Megatron: expert-parallel size). Divides "
                   "mesh.data and model.experts.",
                   MEMBER(mesh.expert)),
              1, 1 << 16));
  keys.push_back(among(bind("mesh.shard", layout,
                            "What the ranks that hold the same weights divide between them. none: nothing, each has all of the optimizer's "
                            "states and updates all weights. optimizer: each has the states of a part of the weights and updates "
                            "that (ZeRO-1; Megatron: distributed optimizer). gradients: each also keeps the gradient sums of that part "
                            "alone (ZeRO-2), with train.leaf = microbatch. parameters: each also has the master weights of that part "
                            "alone, and gathers the weights of a stage when it needs them (ZeRO-3, FSDP); it divides gradient sums with "
                            "train.leaf = microbatch.",
                            MEMBER(mesh.shard)),
                       {"none", "optimizer", "gradients", "parameters"}));
  keys.push_back(between(bind("mesh.weight_slots", layout,
                              "With mesh.shard = parameters: of how many of its stages a rank has the weights at a time. 2: one computes "
                              "while those of the next arrive. Rank-local stage n takes slot n mod mesh.weight_slots.",
                              MEMBER(mesh.weight_slots)),
                         1, 1 << 16));
  keys.push_back(between(
      bind("experts.capacity", layout,
           "Where ranks share experts (mesh.expert): rows of tokens that each has room for, times what it gets of a microbatch if all "
           "experts "
           "are chosen equally often. More rows are exchanged and computed in further rounds: slower, with the same numbers, and shown as "
           "more_rounds. 0: room for the worst case.",
           MEMBER(mesh.capacity)),
      0, 1 << 16));
}

void cuda_keys(std::vector<Key>& keys) {
  keys.push_back(between(
      bind("cuda.device", layout, "Index of the GPU for all ranks of a host. -1: the ranks of a host are assigned to its GPUs in turn.",
           MEMBER(cuda.device)),
      -1, 1023));
  keys.push_back(bind("cuda.graphs", layout, "Launch an action that has run before as one CUDA graph.", MEMBER(cuda.graphs)));
  keys.push_back(bind("cuda.tf32", identity, "Allow matrix products in fp32 to round their operands to tf32.", MEMBER(cuda.tf32)));
  keys.push_back(bind("cuda.algorithms", layout,
                      "File with the algorithm that was measured fastest for each matrix product. auto: products.txt in run.directory. "
                      "Empty (or auto without run.directory): algorithms are not measured.",
                      MEMBER(cuda.algorithms)));
}

void other_keys(std::vector<Key>& keys) {
  keys.push_back(between(bind("checkpoint.every", layout, "Steps between checkpoints. 0: only at the end.", MEMBER(checkpoint.every)), 0,
                         many, "steps"));
  keys.push_back(between(bind("checkpoint.keep", layout, "Number of newest checkpoints to keep.", MEMBER(checkpoint.keep)), 2, 1 << 20,
                         "checkpoints"));

  std::vector<std::string> policies = rematerialization_policies();
  for (const char* label :
       {"decoder_layer_input", "query_wa_proj", "mla_q", "kv_wa_proj", "mla_kv", "query_proj", "key_proj", "value_proj", "context",
        "attention_out", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo", "moe_rows", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo"}) {
    policies.emplace_back(label);
    policies.push_back(fmt::format("offload:{}", label));
  }
  keys.push_back(among(bind("rematerialize.policy", layout,
                            "A policy, or the labels of the values to keep from forward to backward; all others are recomputed. "
                            "offload:LABEL keeps a value in host memory.",
                            MEMBER(rematerialize.policy)),
                       policies));
  keys.push_back(
      bind("rematerialize.stages", layout,
           "A policy for each stage, in order, labels joined with +; replaces rematerialize.policy. Empty: the same policy for all stages.",
           MEMBER(rematerialize.stages)));

  keys.push_back(between(
      bind("cluster.heartbeat_ms", layout, "Interval between two heartbeats of a process.", MEMBER(cluster.heartbeat_ms)), 1, many, "ms"));
  keys.push_back(between(bind("cluster.timeout_ms", layout,
                              "A process is considered lost after this time without a heartbeat. 0: never, for use with a debugger.",
                              MEMBER(cluster.timeout_ms)),
                         0, many, "ms"));
  keys.push_back(between(bind("cluster.stall_ms", layout,
                              "Warn when a step makes no progress for this time, and for 1.5 times the longest pause so far. The warning "
                              "names the rank that waits, its microbatch and the rank that it waits for. 0: never.",
                              MEMBER(cluster.stall_ms)),
                         0, many, "ms"));
  keys.push_back(between(
      bind("cluster.start_timeout_ms", layout, "Time for all processes to join and agree at the start.", MEMBER(cluster.start_timeout_ms)),
      1, many, "ms"));
  keys.push_back(bind("cluster.interface", layout, "The interface or address that process 0 listens on. Empty: chosen automatically.",
                      MEMBER(cluster.interface)));

  keys.push_back(between(bind("status.port", layout,
                              "Port of the status page on process 0 (docs/live.md). 0: a free port, which is printed. -1: no status page.",
                              MEMBER(status.port)),
                         -1, 65535));
  keys.push_back(bind("status.address", layout,
                      "IP address that the status page listens on; any but a loopback address requires status.token_file.",
                      MEMBER(status.address)));
  keys.push_back(bind("status.token_file", layout, "A file with the token that clients must present. Empty: no token is required.",
                      MEMBER(status.token_file)));

  keys.push_back(bind("sample.prompt", layout, "Prompt of the sample that is generated at the end.", MEMBER(sample.prompt)));
  keys.push_back(between(bind("sample.tokens", layout, "Tokens of the sample that the trained model generates at the end. 0: no sample.",
                              MEMBER(sample.tokens)),
                         0, 1 << 20, "tokens"));
  keys.push_back(between(
      bind("sample.temperature", layout, "Sampling temperature. 0: greedy, always the most probable token.", MEMBER(sample.temperature)), 0,
      100));

  keys.push_back(
      between(bind("log.every", layout,
                   "Steps between two lines of a run's log; the first and the last step have one too, and slow ones each minute. "
                   "0: 10, or on a terminal none, where one line shows the newest step. metrics.jsonl has all steps.",
                   MEMBER(log.every)),
              0, many, "steps"));

  keys.push_back(bind("debug.fault", layout, "A fault to inject, for tests of failure handling. Empty: none.", MEMBER(fault)));
}

}  // namespace

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    run_keys(all);
    append_model_keys(all);
    data_keys(all);
    train_keys(all);
    start_keys(all);
    evaluate_keys(all);
    pipeline_keys(all);
    mesh_keys(all);
    other_keys(all);
    cuda_keys(all);
    return all;
  }();
  return keys;
}

const std::vector<std::string>& key_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Key& key : schema()) all.push_back(key.name);
    return all;
  }();
  return names;
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(schema(), name, &Key::name);
  return found == schema().end() ? nullptr : &*found;
}

std::string_view section_of(std::string_view name) {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

const std::vector<std::string>& rematerialization_policies() {
  static const std::vector<std::string> policies = {"none",
                                                    "full",
                                                    "minimal",
                                                    "minimal_with_context",
                                                    "save_dot_with_context_except_mlp",
                                                    "save_dot_except_mlpwi",
                                                    "save_dot_except_mlp",
                                                    "save_qkv_proj",
                                                    "save_out_proj"};
  return policies;
}

}  // namespace millrace::configs
