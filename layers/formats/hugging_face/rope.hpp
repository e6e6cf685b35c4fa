#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// The defaults of a class of transformers for rotations that its config.json does not specify.
struct RopeDefaults {
  double theta = 10000.0;
  double local_theta = 0.0;    // base of sliding-window layers; 0: the same as the others, without a key in version 4
  bool two_ropes = false;      // rope_parameters has a dictionary for each kind of layer
  bool scales_scores = false;  // mscale_all_dim also multiplies the scores of attention, for all kinds but the default one
  RopeConfig scaled = {};      // not of kind none: the rotation if the file has no dictionary; theta is that above
  // Heads are rotated in part, whatever the kind of rotation: what a missing partial_rotary_factor means. 0: the class multiplies whole
  // heads.
  double proportion = 0.0;
  // The dictionary may have M-RoPE's keys: which axis of a token's position turns each pair. A text's positions are the same in all axes.
  bool sections = false;
  // With two_ropes: rope_parameters alone has the rotations, with both dictionaries or not at all: then the full layers' is `scaled`. The
  // class reads no key of version 4.
  bool parameters_only = false;
};

/// The rotations of a config.json, in the spelling of version 4 (rope_theta, rope_scaling, rope_local_base_freq) or 5
/// (rope_parameters). As in transformers 5, rope_scaling takes precedence over rope_parameters unless it is null or empty; in a
/// family with two rotations it adds to rope_parameters.full_attention. Error(model) if the two contradict each other, if versions
/// 4 and 5 would read the file differently, and for a kind of rotation that transformers does not know. Uses model.head_dim and
/// max_position_embeddings, which must be set.
void read_rope(runtime::JsonReader& reader, const RopeDefaults& family, ModelConfig& model, std::vector<std::string>& warnings);

/// Writes the rotations as rope_theta and rope_scaling, which transformers 4 and 5 read alike, or as rope_parameters if only that
/// can express them (OLMo 3 with a base that is not its class's default).
void write_rope(runtime::OrderedJson& json, const RopeDefaults& family, const ModelConfig& model);

}  // namespace millrace::layers
