#include "layers/formats/hugging_face/config.hpp"

namespace millrace::layers {

const std::vector<const char*>& ignored_hugging_face_keys() {
  // Grouped by reason.
  static const std::vector<const char*> keys = {
      // Keys that other code reads: architectures (if there is no model_type), and the ids of special tokens.
      "architectures",
      "bos_token_id",
      "eos_token_id",
      "pad_token_id",
      // The origin of the file, and other programs that read it.
      "_name_or_path",
      "auto_map",
      "finetuning_task",
      "prefix",
      "sep_token_id",
      "task_specific_params",
      "tokenizer_class",
      "transformers_version",
      "unsloth_version",
      // The choice between implementations of the same computation, and which results are returned or cached.
      "_attn_implementation",
      "attn_implementation",
      "chunk_size_feed_forward",
      "output_attentions",
      "output_hidden_states",
      "output_scores",
      "pretraining_tp",
      "return_dict",
      "return_dict_in_generate",
      "use_cache",
      // Tensors have their own dtype; the compute dtype is a setting of the run.
      "dtype",
      "torch_dtype",
      "use_bfloat16",
      // Heads other than that of a language model.
      "id2label",
      "label2id",
      "problem_type",
      // Settings of encoder-decoder models; these families are decoders regardless.
      "cross_attention_hidden_size",
      "decoder_start_token_id",
      "is_decoder",
      "is_encoder_decoder",
      "tie_encoder_decoder",
      // A loss of TensorFlow's classes.
      "tf_legacy_loss",
      // Modules that predict further tokens, which transformers does not build; the dtype of linear attention's states, which are fp32.
      "mamba_ssm_dtype",
      "mtp_num_hidden_layers",
      "mtp_use_dedicated_embeddings",
      // Generation.
      "bad_words_ids",
      "begin_suppress_tokens",
      "diversity_penalty",
      "do_sample",
      "early_stopping",
      "encoder_no_repeat_ngram_size",
      "exponential_decay_length_penalty",
      "forced_bos_token_id",
      "forced_eos_token_id",
      "length_penalty",
      "max_length",
      "min_length",
      "no_repeat_ngram_size",
      "num_beam_groups",
      "num_beams",
      "num_return_sequences",
      "remove_invalid_values",
      "repetition_penalty",
      "suppress_tokens",
      "temperature",
      "top_k",
      "top_p",
      "typical_p",
  };
  return keys;
}

}  // namespace millrace::layers
