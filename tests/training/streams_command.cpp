#include "tests/layers/streams_family.hpp"

// Adds the test's family before main() of the command reads the list of families.
namespace {

[[maybe_unused]] const bool added = millrace::layers::testing::add_to_families<millrace::layers::testing::StreamsFamily>();

}  // namespace
