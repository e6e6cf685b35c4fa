#include "cluster/links/single_copy.hpp"

#include <array>
#include <string_view>

#include "cluster/links/mpi_world.hpp"

namespace millrace::cluster {
namespace {

/// The name of the control variable's value; empty if there is no such variable.
std::string_view mechanism(std::array<char, 64>& name) {
  int index = 0;
  if (MPI_T_cvar_get_index("btl_vader_single_copy_mechanism", &index) != MPI_SUCCESS) return {};
  int no_length = 0, verbosity = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum names = MPI_T_ENUM_NULL;
  if (MPI_T_cvar_get_info(index, nullptr, &no_length, &verbosity, &type, &names, nullptr, &no_length, &binding, &scope) != MPI_SUCCESS)
    return {};
  if (type != MPI_INT || names == MPI_T_ENUM_NULL) return {};

  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0, value = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return {};
  const bool read = count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  if (!read) return {};

  int kind_length = 0, items = 0;
  if (MPI_T_enum_get_info(names, &items, nullptr, &kind_length) != MPI_SUCCESS) return {};
  for (int item = 0; item < items; ++item) {
    int item_value = 0, length = static_cast<int>(name.size());
    if (MPI_T_enum_get_item(names, item, &item_value, name.data(), &length) == MPI_SUCCESS && item_value == value) return name.data();
  }
  return {};
}

}  // namespace

bool single_copy_transfers() {
  int provided = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return false;
  std::array<char, 64> name{};
  const std::string_view found = mechanism(name);
  MPI_T_finalize();
  return found == "cma" || found == "knem" || found == "xpmem";
}

}  // namespace millrace::cluster
