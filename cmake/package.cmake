# Debian packages of what cmake/install.cmake installs: `cpack --preset release` after a build writes build/release/millrace_*.deb, the program, and
# millrace-dev_*.deb, what programs that link it need. It requires dpkg-dev and file.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_CONTACT "The millrace authors <millrace@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains large language models with pipeline parallelism")
set(CPACK_PACKAGE_DESCRIPTION "millrace divides a model into stages on the ranks of a pipeline, in one process or in several that MPI connects, and trains it.
Loss, gradients and parameters have the same bits in every layout.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME millrace)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
# mpirun, and the text that the quickstart trains on.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "openmpi-bin, libstdc++-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Libraries and headers of millrace, for programs with losses, layers or data of their own.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME millrace-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "libfmt-dev, libspdlog-dev, libopenmpi-dev, libboost-dev, libcaf-dev, nlohmann-json3-dev, libpcre2-dev, libutf8proc-dev, libsentencepiece-dev, libedit-dev, libssl-dev")
# The version has the commit that was built, which is not known yet.
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package_version.cmake)
configure_file(cmake/package_version.cmake.in ${CPACK_PROJECT_CONFIG_FILE} @ONLY)
include(CPack)
