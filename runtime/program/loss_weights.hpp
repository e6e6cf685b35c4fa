#pragma once

#include <string>

namespace millrace::runtime {

/// The weights of the terms that a run adds to the loss of its language model. 0: there is no such term. And what evens out the use of
/// experts without one.
struct LossWeights {
  std::string output = "cross_entropy";  // no weight: what the output head computes (layers/losses/output_loss.hpp)
  double z_loss = 0;                     // log(Z)² of the head's softmax, by valid target (PaLM, arXiv 2204.02311, section 5)
  double balance_loss = 0;               // how unevenly routers load their experts (kernels/balance_loss.hpp), a mean over their layers
  double router_z_loss = 0;              // log(Z)² of the routers' softmax, by token (kernels/router_z_loss.hpp), a mean over these layers
  double indexer_loss = 0;               // how far indexers' choices are from the attention (kernels/indexer_loss.hpp), a mean over layers
  bool indexer_warmup = false;           // indexers learn from all keys that a query sees, and nothing else is trained
  double mtp_loss = 0;                   // of modules of multi-token prediction (layers/models/mtp.hpp), by what these have to predict
  int mtp_eval_module = 0;               // no term: the module (from 1) whose predictions evaluations compare with the model's; 0: none
  bool qk_clip = false;                  // no term: attentions observe their scores, for QK-clip (runtime/engine/qk_clip.hpp)
  double routed_bias_update_rate = 0;    // no term: of the biases by which routers choose (runtime/engine/load_balance.hpp)

  bool operator==(const LossWeights&) const = default;
};

}  // namespace millrace::runtime
