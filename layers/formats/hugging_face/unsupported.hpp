#pragma once

#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// Keys of transformers that change what any of its models computes and that no family here has. Error(model) where one is in use.
void refuse_what_no_family_computes(runtime::JsonReader& reader);

}  // namespace millrace::layers
