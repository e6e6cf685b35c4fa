// Exists for its precompiled headers (cmake/tests.cmake).
int main() {}
