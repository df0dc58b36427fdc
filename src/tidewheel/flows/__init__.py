"""The actions of Tidewheel, one file per verb. The flows use ports and do no I/O of their own."""
