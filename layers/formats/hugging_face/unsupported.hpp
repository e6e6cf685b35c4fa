#pragma once

#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Keys of transformers that change the result of a model and that no family here supports. Error(model) if one is set.
void refuse_what_no_family_computes(runtime::JsonReader& reader, bool sizes_by_layer = false);

}  // namespace millrace::layers
