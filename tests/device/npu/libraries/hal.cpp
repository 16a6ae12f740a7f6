// libascend_hal.so: the library of the driver.
extern "C" int drvGetPlatformInfo() { return 0; }
